"""Parses schedules (`linear:0.997:0.9995`, `constant:0.001`) and weights of the reward."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hackmatrix_rl import agent
from hackmatrix_rl.games import hackmatrix as game
from hackmatrix_rl.runs.config._renamed import RATE, RATE_SCHEDULE, closest
from hackmatrix_rl.system.errors import ConfigError, flag, refusing, shortened

SHAPES = ("linear", "cosine")
PIECEWISE = "piecewise"
CONSTANT = "constant"


@dataclass(frozen=True)
class ScheduleText:
    """The text of a schedule over a fraction of the training (0 < share <= 1)."""

    shape: str
    initial: float
    final: float
    share: float = 1.0

    def __str__(self) -> str:
        end = "" if self.share == 1 else f"@{self.share:g}"
        return f"{self.shape}:{self.initial!r}:{self.final!r}{end}"

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that bound it."""
        return self.initial, self.final

    def over(self, steps: int) -> "agent.Schedule":
        """The schedule over the steps of a training."""
        shape = {"linear": agent.Linear, "cosine": agent.Cosine}[self.shape]
        return shape(self.initial, self.final, over=max(1, round(self.share * steps)))


@dataclass(frozen=True)
class ConstantText:
    """The text of a constant schedule."""

    number: float

    def __str__(self) -> str:
        return f"{CONSTANT}:{self.number!r}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.number,)

    def over(self, steps: int) -> "agent.Schedule":
        del steps
        return agent.Constant(self.number)


@dataclass(frozen=True)
class PiecewiseText:
    """The text of a piecewise constant schedule; `shares` are the starts of `numbers[1:]`."""

    numbers: tuple[float, ...]
    shares: tuple[float, ...]

    def __str__(self) -> str:
        later = zip(self.numbers[1:], self.shares, strict=True)
        each = [repr(self.numbers[0]), *(f"{number!r}@{share!r}" for number, share in later)]
        return ":".join([PIECEWISE, *each])

    def over(self, steps: int) -> "agent.Schedule":
        return agent.Piecewise(self.numbers, tuple(round(share * steps) for share in self.shares))


Text = ConstantText | ScheduleText | PiecewiseText


def parse_schedule(text: str) -> float | Text:
    """Parses a number or a schedule; raises a ValueError for any other text.

    A schedule is `SHAPE:FROM:TO@SHARE`, `constant:NUMBER`, or
    `piecewise:FIRST:NEXT@SHARE:NEXT@SHARE`.
    """
    try:
        return float(text)
    except ValueError:
        pass
    shape, _, rest = text.strip().partition(":")
    if shape == PIECEWISE:
        return _parse_piecewise(text, rest)
    numbers, at, share = rest.partition("@")
    try:
        if shape == CONSTANT:
            return ConstantText(float(rest))
        initial, final = map(float, numbers.split(":"))
        part = float(share) if at else 1.0
        if shape not in SHAPES or not 0 < part <= 1:
            raise ValueError
    except ValueError as error:
        raise ValueError(
            f"{shortened(text)}: must be a number, or a schedule such as constant:0.5, "
            "linear:0.5:0 or cosine:0.5:0@0.3 (over the first 0.3 of the training)"
        ) from error
    return ScheduleText(shape, initial, final, part)


def _parse_piecewise(text: str, rest: str) -> PiecewiseText:
    """Parses the numbers and shares in `rest`; errors quote the full `text`."""
    try:
        begin, *later = rest.split(":")
        first = float(begin)
        pairs = [tuple(map(float, each.split("@"))) for each in later]
        numbers, shares = zip(*pairs, strict=True)
        if not all(a < b for a, b in pairwise((0.0, *shares, 1.0))):
            raise ValueError
    except ValueError as error:
        raise ValueError(
            f"{shortened(text)}: must be numbers, each but the first with the share of the training"
            " from which it holds: piecewise:0.001:0.0005@0.25:0.0002@0.5"
        ) from error
    return PiecewiseText((first, *numbers), shares)


def bounds_of(value: float | str) -> tuple[float, ...]:
    """The numbers that bound a number or the text of a schedule."""
    said = parse_schedule(value) if isinstance(value, str) else value
    return (said,) if isinstance(said, int | float) else said.numbers


def parse_vary(text: str | None) -> dict[str, tuple[float | str, ...]]:
    """The values of each setting in a text such as `learning_rate=1e-4,3e-4,gamma=0.99,0.997`.

    A value is a number or the text of a schedule. All settings have the same number of values.

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
        found[name] = tuple(each if isinstance(each, float) else str(each) for each in said)
    counts = {name: len(values) for name, values in found.items()}
    if len({*counts.values()}) > 1:
        each = " and ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"{each}; expected as many values of each setting")
    return found


def schedule_of(value: float | str, *, steps: int, after: int = 0) -> "agent.Scheduled":
    """The number or schedule of a checked config field, over the environment steps of its stage.

    `after` is the number of steps in earlier stages.
    """
    said = parse_schedule(value) if isinstance(value, str) else value
    if isinstance(said, int | float):
        return said
    found = said.over(steps)
    return agent.After(found, after) if after else found


def always_schedule(value: float | str, *, steps: int, after: int = 0) -> "agent.Schedule":
    """`schedule_of`, with a number as a constant schedule."""
    found = schedule_of(value, steps=steps, after=after)
    return found if isinstance(found, agent.Schedule) else agent.Constant(float(found))


def rate_text(rate: float | str, schedule: str | None = None) -> str:
    """The learning rate of a `TrainConfig` as the text of a schedule.

    A number becomes `linear:NUMBER:0`. `schedule` is the value of the retired setting
    `learning_rate_schedule`: with `constant`, the number becomes `constant:NUMBER`.

    Raises:
        ValueError: there is no such `schedule`, or the rate is another schedule already.
    """
    if schedule not in (None, CONSTANT, "linear"):
        raise ValueError(
            f"{flag(RATE_SCHEDULE)} {shortened(schedule)}: unknown. Leave it out, and write "
            f"{flag(RATE)} constant:0.001, say."
        )
    said = parse_schedule(rate) if isinstance(rate, str) else rate
    if isinstance(said, int | float):
        said = _falling(said)
    if schedule == CONSTANT and not isinstance(said, ConstantText):
        if not _falls(said):
            raise ValueError(
                f"{flag(RATE)} {rate} is a schedule already. Leave {flag(RATE_SCHEDULE)} out."
            )
        said = ConstantText(said.numbers[0])
    return str(said)


def rates_in_words(rates: Sequence[float | str], length: str) -> str:
    """Numbers or schedules in words: `0.001 falling to 0 over 62 updates`."""
    said = [parse_schedule(rate) if isinstance(rate, str) else rate for rate in rates]
    firsts = ", ".join(f"{bounds_of(rate)[0]:g}" for rate in rates)
    if all(isinstance(each, int | float | ConstantText) for each in said):
        return f"{firsts} throughout"
    if all(_falls(each) for each in said):
        return f"{firsts} falling to 0 over {length}"
    return f"{', '.join(str(rate) for rate in rates)} over {length}"


def _falls(said: object) -> bool:
    """Whether a parsed schedule is linear to 0 over the full training."""
    return isinstance(said, ScheduleText) and said == _falling(said.initial)


def _falling(number: float) -> ScheduleText:
    return ScheduleText("linear", float(number), 0.0)


def constant_vary(vary: str) -> str:
    """The text of `vary` with constant learning rates."""
    varied = parse_vary(vary)
    if RATE in varied:
        varied[RATE] = tuple(rate_text(each, CONSTANT) for each in varied[RATE])
    return ",".join(f"{name}={','.join(map(str, values))}" for name, values in varied.items())


def with_rate_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored, unchecked settings with `learning_rate_schedule` as part of `learning_rate`.

    Invalid settings stay unchanged.
    """
    found = dict(settings)
    rate, schedule = settings.get(RATE), settings.get(RATE_SCHEDULE)
    if isinstance(rate, int | float | str) and isinstance(schedule, str):
        try:
            found[RATE] = rate_text(rate, schedule)
        except (ValueError, OverflowError):
            return found
        del found[RATE_SCHEDULE]
    return found


def parse_reward(text: str | None) -> "game.RewardConfig":
    """Parses the weights of the reward; a term that is not named has the weight 1."""
    weights: dict[str, float] = {}
    for part in (text or "").split(",") if (text or "").strip() else ():
        name, equals, number = (each.strip() for each in part.partition("="))
        said = f"--reward {shortened(part.strip())}"
        if not equals or not name:
            raise ConfigError(
                f"{said}: must be a term and its weight, such as victory=0.1,score_gain=0."
            )
        if name not in game.TERM_NAMES:
            near = closest(name, game.TERM_NAMES) or f"Use some of {', '.join(game.TERM_NAMES)}."
            raise ConfigError(f"{said}: unknown term {shortened(name)}. {near}")
        if name in weights:
            raise ConfigError(f"{said}: {name} has a weight already. Name it once.")
        try:
            weights[name] = float(number)
        except ValueError as error:
            wanted = f"the weight of {name} must be a number, such as {name}=0.5"
            raise ConfigError(f"{said}: {wanted}.") from error
    with refusing(f"--reward {shortened(text)}: "):
        return game.RewardConfig(**weights)


def reward_text(reward: "game.RewardConfig") -> str | None:
    """The canonical text of weights; `None` if all are 1."""
    texts = [f"{name}={weight!r}".removesuffix(".0") for name, weight in reward.changed().items()]
    return ",".join(texts) or None
