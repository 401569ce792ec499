"""The sizes of an update of self-play, checked before anything is compiled."""

from dataclasses import dataclass, fields

from jax.sharding import Mesh

from hackmatrix_rl.errors import instance, whole
from hackmatrix_rl.training.sharding import check_axes, mesh, single_device


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update. Each is a whole number, 1 or more.

    Attributes:
        game_batch_size: number of games at once.
        moves_per_update: moves of each game in an update.
        buffer_size: positions to keep, over all games.
        training_batch_size: positions of a gradient step.
        train_steps: gradient steps of an update.

    Raises:
        TypeError: a size is no whole number.
        ValueError: the sizes do not fit together.
    """

    game_batch_size: int
    moves_per_update: int
    buffer_size: int
    training_batch_size: int
    train_steps: int

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, whole(each.name, getattr(self, each.name)))
        update = self.game_batch_size * self.moves_per_update
        if self.buffer_size < update:
            raise ValueError(
                f"buffer_size {self.buffer_size} is less than the {update} positions of an update; "
                "use that many or more"
            )
        small, large = sorted((self.game_batch_size, self.training_batch_size))
        if large % small:
            raise ValueError(
                f"training_batch_size {self.training_batch_size} and game_batch_size "
                f"{self.game_batch_size} do not fit: one must divide the other, so that each of "
                f"the games gives as many positions; use training_batch_size={self._near()}"
            )

    def _near(self) -> int:
        """A batch near the one asked for that fits."""
        wanted, games = self.training_batch_size, self.game_batch_size
        if wanted > games:
            return wanted // games * games
        return max(size for size in range(1, wanted + 1) if games % size == 0)

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
        return min(self.game_batch_size, self.training_batch_size)

    @property
    def of_each(self) -> int:
        """Positions of a gradient step from each block."""
        return self.training_batch_size // self.blocks


def mesh_for(given: Mesh | str | None, sizes: Sizes) -> Mesh:
    """The mesh that the argument is, or that its text describes; one device for `None`.

    Raises:
        TypeError: the argument is neither a mesh nor a text.
        ValueError: the devices here cannot form the mesh, or games and batch do not divide over
            it.
    """
    made = mesh(given) if isinstance(given, str) else given
    made = single_device() if made is None else made
    instance("mesh", made, Mesh, 'hm.mesh("data=2")')
    check_axes(made)
    if sizes.blocks % made.size:
        name = "game_batch_size" if sizes.blocks == sizes.game_batch_size else "training_batch_size"
        raise ValueError(
            f"{name} {sizes.blocks} does not divide over the {made.size} devices of the mesh; use "
            f"{-(-sizes.blocks // made.size) * made.size}, or fewer devices"
        )
    return made
