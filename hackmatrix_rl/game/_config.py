"""Static sizes of a game."""

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True)
class GameConfig:
    """How much room a game has.

    The game itself bounds none of these; a compiled program has to. A spawn that finds no
    room is dropped and counted in `Position.dropped`. The defaults were chosen by measuring
    how often they bind (docs/architecture.md, "Capacities").

    Attributes:
        max_enemies: enemies on the board at once.
        max_transmissions: transmissions on the board at once.
        history: snapshots kept for UNDO; the oldest is forgotten first.
        MOST_THINGS: largest room for enemies, and for transmissions: a draw among all of both
            tells them apart by 7 bits.

    Raises:
        ValueError: if a size is not a positive integer, or there is room for too many things.
    """

    MOST_THINGS: ClassVar[int] = 63

    max_enemies: int = 24
    max_transmissions: int = 24
    history: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{field.name} must be a positive integer, not {size!r}")
        for name in ("max_enemies", "max_transmissions"):
            if getattr(self, name) > self.MOST_THINGS:
                raise ValueError(
                    f"{name} must be at most {self.MOST_THINGS}, not {getattr(self, name)}"
                )
