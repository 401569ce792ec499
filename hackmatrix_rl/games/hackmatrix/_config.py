"""The static configuration of a game: its sizes and its league. Also the version of the rules."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from hackmatrix_rl.system.errors import shortened

League = Literal["original", "no-rewind"]
"""Whether UNDO reaches across stages."""

LEAGUES: tuple[League, ...] = get_args(League)


@dataclass(frozen=True)
class GameConfig:
    """The sizes of a game's arrays, and the league.

    The rules set no such limits, but a compiled program needs fixed shapes. A spawn without a free
    slot is dropped and counted in `Position.dropped`. The defaults come from a measurement
    (benchmarks/RESULTS.md, "Capacities of the game").

    Attributes:
        max_enemies: the most enemies on the board at once.
        max_transmissions: the most transmissions on the board at once.
        history: number of snapshots for UNDO; a new snapshot replaces the oldest.
        rewind_across_stages: whether UNDO right after a stage change restores the old board
            (rules, section 7). If `False`, a new stage clears the history.
        MAX_CAPACITY: the upper bound of `max_enemies` and `max_transmissions`: WARP numbers all
            enemies and transmissions with 7 bits.

    Raises:
        ValueError: a size is not a positive integer, a capacity exceeds `MAX_CAPACITY`, or
            `rewind_across_stages` is not a bool.
    """

    MAX_CAPACITY: ClassVar[int] = 63

    max_enemies: int = 24
    max_transmissions: int = 24
    history: int = 16
    rewind_across_stages: bool = True

    def __post_init__(self) -> None:
        for name in ("max_enemies", "max_transmissions", "history"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{name} must be a positive integer, not {shortened(repr(size))}")
        if not isinstance(self.rewind_across_stages, bool):
            raise ValueError(
                "rewind_across_stages must be True or False, not "
                f"{shortened(repr(self.rewind_across_stages))}"
            )
        for name in ("max_enemies", "max_transmissions"):
            if getattr(self, name) > self.MAX_CAPACITY:
                raise ValueError(
                    f"{name} must be at most {self.MAX_CAPACITY}, not "
                    f"{shortened(getattr(self, name))}"
                )

    @staticmethod
    def of_league(league: League) -> "GameConfig":
        """The default sizes, in a league.

        Raises:
            ValueError: the league is unknown.
        """
        if league not in LEAGUES:
            raise ValueError(f"league must be one of {', '.join(LEAGUES)}, not {league!r}")
        return GameConfig(rewind_across_stages=league == "original")

    @property
    def league(self) -> League:
        """The name of the league. Only players of the same league are compared."""
        return "original" if self.rewind_across_stages else "no-rewind"


RULES_VERSION = 1
"""Raised by hand with every change of what happens in a game or of the reward.

Such a change concerns what an action does, when it is legal, what is random and with which
probability, or a term of the reward. A faster implementation of the same game does not raise it.
A policy or recording made under one version is not used under another.
"""
