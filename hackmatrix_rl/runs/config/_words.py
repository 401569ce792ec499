"""What the config of an algorithm says of it in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a run prints of its algorithm, in addition to what it prints of every one.

    Attributes:
        learning: the data of an update.
        length: how long it trains; by default up to its goal.
        plan: lines of the plan of a run, by topic; by default `learning`.
        gradient_steps: number of gradient steps of the training, for the plan.
        details: lines at the start of a run.
        advice: commands after a completed training, which take its folder as last argument.
    """

    learning: str
    length: str | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    gradient_steps: str | None = None
    details: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
