"""The sizes of a game that are fixed when it is compiled."""

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True)
class GameConfig:
    """The sizes of a game's arrays.

    The rules set no such limits, but a compiled program needs fixed shapes. A spawn without a free
    slot is dropped and counted in `Position.dropped`. The defaults come from a measurement
    (docs/architecture.md, "Capacities").

    Attributes:
        max_enemies: the most enemies on the board at once.
        max_transmissions: the most transmissions on the board at once.
        history: number of snapshots for UNDO; a new snapshot replaces the oldest.
        MAX_CAPACITY: the largest `max_enemies` and `max_transmissions`: WARP numbers all enemies
            and transmissions with 7 bits.

    Raises:
        ValueError: a size is not a positive integer, or a capacity exceeds `MAX_CAPACITY`.
    """

    MAX_CAPACITY: ClassVar[int] = 63

    max_enemies: int = 24
    max_transmissions: int = 24
    history: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{field.name} must be a positive integer, not {size!r}")
        for name in ("max_enemies", "max_transmissions"):
            if getattr(self, name) > self.MAX_CAPACITY:
                raise ValueError(
                    f"{name} must be at most {self.MAX_CAPACITY}, not {getattr(self, name)}"
                )
