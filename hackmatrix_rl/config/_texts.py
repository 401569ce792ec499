"""Schedules (`linear:0.997:0.9995`, `cosine:0.5:0@0.3`) and weights of the reward as text."""

import re
from dataclasses import dataclass

from hackmatrix_rl.agent import After, Constant, Cosine, Linear, Schedule, Scheduled
from hackmatrix_rl.config._renamed import closest
from hackmatrix_rl.errors import ConfigError, refusing, shortened
from hackmatrix_rl.game import TERM_NAMES, RewardConfig

SHAPES = {"linear": Linear, "cosine": Cosine}


@dataclass(frozen=True)
class ScheduleText:
    """A schedule over a share of the training (over 0, at most 1), as a flag or a file says it."""

    shape: str
    initial: float
    final: float
    share: float = 1.0

    def __str__(self) -> str:
        end = "" if self.share == 1 else f"@{self.share:g}"
        return f"{self.shape}:{self.initial!r}:{self.final!r}{end}"


def parse_schedule(text: str) -> float | ScheduleText:
    """The number or schedule (`SHAPE:FROM:TO@SHARE`) of a text; raises a ValueError for others."""
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


def parse_vary(text: str | None) -> dict[str, tuple[float | str, ...]]:
    """The values of each setting in a text such as `learning_rate=1e-4,3e-4,gamma=0.99,0.997`.

    A value is a number or the text of a schedule. Each setting has as many values.

    Raises:
        ValueError: the text is something else.
    """
    if text is None:
        return {}
    found: dict[str, tuple[float | str, ...]] = {}
    for part in re.split(r",\s*(?=\w+\s*=)", text.strip()):
        name, equals, values = (piece.strip() for piece in part.partition("="))
        said = [parse_schedule(value.strip()) for value in values.split(",")] if equals else []
        if not said or not name or name in found:
            raise ValueError("expected a setting with its values: learning_rate=1e-4,3e-4,1e-3")
        found[name] = tuple(str(each) if isinstance(each, ScheduleText) else each for each in said)
    counts = {name: len(values) for name, values in found.items()}
    if len({*counts.values()}) > 1:
        each = " and ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"{each}; expected as many values of each setting")
    return found


def schedule_of(value: float | str, *, steps: int, after: int = 0) -> Scheduled:
    """The number or schedule of a checked config field, over environment steps of its stage.

    `after` are the steps of the stages before.
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


def parse_reward(text: str | None) -> RewardConfig:
    """The weights that a text says; a term that it does not name has the weight 1."""
    weights: dict[str, float] = {}
    for part in (text or "").split(",") if (text or "").strip() else ():
        name, equals, number = (each.strip() for each in part.partition("="))
        said = f"--reward {shortened(part.strip())}"
        if not equals or not name:
            raise ConfigError(
                f"{said}: must be a term and its weight, such as victory=0.1,score_gain=0."
            )
        if name not in TERM_NAMES:
            near = closest(name, TERM_NAMES) or f"Use some of {', '.join(TERM_NAMES)}."
            raise ConfigError(f"{said}: unknown term {shortened(name)}. {near}")
        if name in weights:
            raise ConfigError(f"{said}: {name} has a weight already. Name it once.")
        try:
            weights[name] = float(number)
        except ValueError as error:
            wanted = f"the weight of {name} must be a number, such as {name}=0.5"
            raise ConfigError(f"{said}: {wanted}.") from error
    with refusing(f"--reward {shortened(text)}: "):
        return RewardConfig(**weights)


def reward_text(reward: RewardConfig) -> str | None:
    """The text of weights, always the same for the same ones; `None` where all are 1."""
    texts = [f"{name}={weight!r}".removesuffix(".0") for name, weight in reward.changed().items()]
    return ",".join(texts) or None
