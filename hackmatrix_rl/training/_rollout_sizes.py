"""The sizes of an update that learns from a rollout, and the mesh that divides them."""

from dataclasses import dataclass, fields

from jax.sharding import Mesh

from hackmatrix_rl.errors import instance, whole
from hackmatrix_rl.training._minibatches import Minibatches
from hackmatrix_rl.training.sharding import check_axes, check_split, mesh, single_device


@dataclass(frozen=True)
class RolloutSizes:
    """The sizes of an update that learns from a rollout. Each is a whole number, 1 or more.

    `num_minibatches * grad_accum` must divide `num_envs`.

    Attributes:
        num_envs: number of environments.
        num_steps: steps of each environment in an update.
        num_minibatches: number of minibatches in one pass over a rollout.
        update_epochs: number of passes over a rollout.
        grad_accum: number of parts of a minibatch.
    """

    num_envs: int
    num_steps: int
    num_minibatches: int
    update_epochs: int
    grad_accum: int

    def __post_init__(self) -> None:
        for each in fields(self):
            checked = whole(each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, checked)
        self.minibatches.check(self.num_envs, parts=self.grad_accum)

    @property
    def minibatches(self) -> Minibatches:
        """The minibatches of an update."""
        return Minibatches(self.num_minibatches, self.update_epochs)

    def mesh_for(self, given: Mesh | str | None) -> Mesh:
        """The mesh that an argument is, or that its text describes; one device for `None`.

        Args:
            given: the argument.

        Raises:
            TypeError: it is neither a mesh nor a text.
            ValueError: the devices here cannot form the mesh of the text, or the mesh does not
                divide the sizes.
        """
        if isinstance(given, str):
            given = mesh(given)
        made = single_device() if given is None else given
        instance("mesh", made, Mesh, 'hm.mesh("data=2")')
        check_axes(made)
        check_split(
            made.shape,
            num_envs=self.num_envs,
            num_minibatches=self.num_minibatches,
            grad_accum=self.grad_accum,
        )
        return made
