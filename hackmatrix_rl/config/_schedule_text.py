"""Schedules as text: `linear:0.997:0.9995`, `cosine:0.5:0@0.3`."""

from dataclasses import dataclass

from hackmatrix_rl.agent import After, Constant, Cosine, Linear, Schedule, Scheduled
from hackmatrix_rl.errors import shortened

SHAPES = {"linear": Linear, "cosine": Cosine}


@dataclass(frozen=True)
class ScheduleText:
    """A schedule over a share of the training, as a flag or a file says it.

    Attributes:
        shape: a name in `SHAPES`.
        initial: the number at the start.
        final: the number at the end, and after it.
        share: the part of the training that it takes, over 0 and at most 1.
    """

    shape: str
    initial: float
    final: float
    share: float = 1.0

    def __str__(self) -> str:
        end = "" if self.share == 1 else f"@{self.share:g}"
        return f"{self.shape}:{self.initial!r}:{self.final!r}{end}"


def parse_schedule(text: str) -> float | ScheduleText:
    """The number, or the schedule, that a text says.

    Args:
        text: `0.5`, or `SHAPE:FROM:TO` with `@SHARE` of the training after it.

    Raises:
        ValueError: the text is neither.
    """
    try:
        return float(text)
    except ValueError:
        pass
    shape, _, rest = text.strip().partition(":")
    numbers, at, share = rest.partition("@")
    try:
        initial, final = map(float, numbers.split(":"))
        part = float(share) if at else 1.0
        if shape not in SHAPES or not 0 < part <= 1:
            raise ValueError
    except ValueError as error:
        raise ValueError(
            f"{shortened(text)}: must be a number, or a schedule such as linear:0.5:0 or "
            "cosine:0.5:0@0.3 (over the first 0.3 of the training)"
        ) from error
    return ScheduleText(shape, initial, final, part)


def schedule_of(value: float | str, *, steps: int, after: int = 0) -> Scheduled:
    """The number or schedule of a config field, for training.

    Args:
        value: the field, checked.
        steps: environment steps of the training, or of its stage.
        after: environment steps of the stages before.
    """
    said = parse_schedule(value) if isinstance(value, str) else value
    if not isinstance(said, ScheduleText):
        return said
    found = SHAPES[said.shape](said.initial, said.final, over=max(1, round(said.share * steps)))
    return After(found, after) if after else found


def always_schedule(value: float | str, *, steps: int, after: int = 0) -> Schedule:
    """The schedule of a config field, as `schedule_of`; a number becomes a constant one."""
    found = schedule_of(value, steps=steps, after=after)
    return found if isinstance(found, Schedule) else Constant(float(found))
