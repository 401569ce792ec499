"""The sizes of an update of Q-learning, checked before anything is compiled."""

from dataclasses import dataclass, fields

from hackmatrix_rl.errors import ArgumentError, whole
from hackmatrix_rl.training.sharding import Blocks

FROM_ZERO = ("burn_in", "learning_starts")


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update, as `R2D2` describes them: whole numbers, 1 or more.

    `burn_in` and `learning_starts` may be 0.

    Raises:
        TypeError: a size is no whole number.
        ValueError: the sizes do not fit together.
    """

    num_envs: int
    train_freq: int
    buffer_size: int
    sequence_length: int
    burn_in: int
    n_step: int
    sequence_batch_size: int
    train_steps: int
    grad_accum: int
    learning_starts: int
    target_update: int

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name in FROM_ZERO else 1
            object.__setattr__(self, each.name, whole(each.name, getattr(self, each.name), least))
        if self.length < self.window:
            updates = -(-self.window // self.train_freq)
            raise ArgumentError(
                f"{{buffer_size}} keeps {self.length} steps of each of the {self.num_envs} "
                f"environments (whole updates of {self.train_freq}), but a sequence takes "
                f"{self.window}: {{burn_in}} + {{sequence_length}} + {{n_step}}; use "
                f"{{buffer_size:={updates * self.train_freq * self.num_envs}}} or more, or a "
                "shorter sequence",
                buffer_size=self.buffer_size,
                burn_in=self.burn_in,
                sequence_length=self.sequence_length,
                n_step=self.n_step,
            )
        if self.learning_starts > self.length * self.num_envs:
            raise ArgumentError(
                f"{{learning_starts}} is more than the {self.length * self.num_envs} steps that "
                "the buffer keeps; use that many or less",
                learning_starts=self.learning_starts,
            )
        self.in_blocks.check(environments="environments", samples="sequences")

    @property
    def in_blocks(self) -> Blocks:
        """The blocks of environments from which a batch is sampled."""
        return Blocks("num_envs", self.num_envs, "sequence_batch_size", self.sequence_batch_size)

    @property
    def length(self) -> int:
        """Steps of each environment in the buffer: whole updates."""
        return self.buffer_size // (self.num_envs * self.train_freq) * self.train_freq

    @property
    def starts(self) -> int:
        """Number of valid starts of a sequence in an environment's ring."""
        return self.length // self.train_freq

    @property
    def window(self) -> int:
        """Steps that are read for a sequence."""
        return self.burn_in + self.sequence_length + self.n_step

    @property
    def blocks(self) -> int:
        """Number of blocks of environments. Each gives as many sequences to a gradient step."""
        return self.in_blocks.number

    @property
    def of_each(self) -> int:
        """Sequences of a gradient step from each block."""
        return self.in_blocks.of_each
