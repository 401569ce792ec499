"""The sizes of an update of self-play, checked before anything is compiled."""

from dataclasses import dataclass, fields

from hackmatrix_rl.errors import ArgumentError, whole
from hackmatrix_rl.training.sharding import Blocks


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update. Each is a whole number, 1 or more.

    Attributes:
        game_batch_size: number of games at once.
        moves_per_update: moves of each game in an update.
        buffer_size: positions to keep, over all games.
        training_batch_size: positions of a gradient step.
        train_steps: gradient steps of an update.
        grad_accum: parts of a gradient step's positions that go through the network one after
            another.

    Raises:
        TypeError: a size is no whole number.
        ValueError: the sizes do not fit together.
    """

    game_batch_size: int
    moves_per_update: int
    buffer_size: int
    training_batch_size: int
    train_steps: int
    grad_accum: int = 1

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, whole(each.name, getattr(self, each.name)))
        update = self.game_batch_size * self.moves_per_update
        if self.buffer_size < update:
            raise ArgumentError(
                f"{{buffer_size}} is less than the {update} positions of an update; use that many "
                "or more",
                buffer_size=self.buffer_size,
            )
        self.in_blocks.check(environments="games", samples="positions")

    @property
    def in_blocks(self) -> Blocks:
        """The blocks of games from which a batch is sampled."""
        return Blocks(
            "game_batch_size", self.game_batch_size, "training_batch_size", self.training_batch_size
        )

    @property
    def length(self) -> int:
        """Moves of each game in the buffer: whole updates."""
        return (
            self.buffer_size
            // (self.game_batch_size * self.moves_per_update)
            * self.moves_per_update
        )

    @property
    def blocks(self) -> int:
        """Number of blocks of games. Each gives one game to a gradient step."""
        return self.in_blocks.number

    @property
    def of_each(self) -> int:
        """Positions of a gradient step from each block."""
        return self.in_blocks.of_each
