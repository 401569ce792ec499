"""The sizes of an update that learns from a rollout, and its minibatches."""

from dataclasses import dataclass, fields

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, Key, UInt32

from hackmatrix_rl.system.errors import ArgumentError, counts, whole
from hackmatrix_rl.training.sharding import check_split, divisors, neighbours


class Minibatches(eqx.Module):
    """Epochs of minibatches over a rollout.

    A minibatch has all steps of some environments, so networks with memory learn from full
    sequences. Each epoch has a new random assignment of environments to minibatches.

    `num_minibatches` neighbouring environments form a block, and each block gives one environment
    to each minibatch, in a random order. So the assignment depends only on the key. On a mesh each
    device holds full blocks, so forming a minibatch needs no communication. With 2 minibatches, an
    epoch over 4 environments may be [[1 2] [0 3]].

    Attributes:
        num_minibatches: minibatches in an epoch; must divide the number of environments.
        update_epochs: number of epochs.
    """

    num_minibatches: int = eqx.field(static=True, default=4)
    update_epochs: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        counts(num_minibatches=self.num_minibatches, update_epochs=self.update_epochs)

    @property
    def count(self) -> int:
        """Number of minibatches over all epochs."""
        return self.num_minibatches * self.update_epochs

    def check(self, num_envs: int, *, parts: int = 1) -> None:
        """Raises an ArgumentError unless minibatches and their parts divide the environments."""
        count = self.num_minibatches
        if num_envs % count:
            nearest = max(1, round(num_envs / count)) * count
            raise ArgumentError(
                "{num_minibatches} does not divide {num_envs}. Use "
                f"{_near('num_minibatches', count, num_envs)}, or {{num_envs:={nearest}}}",
                num_minibatches=count,
                num_envs=num_envs,
            )
        games = num_envs // count
        if games % parts:
            raise ArgumentError(
                f"{{grad_accum}} does not divide the {games} games of a minibatch ({{num_envs}} in "
                f"{count} minibatches). Use {_near('grad_accum', parts, games)}",
                grad_accum=parts,
                num_envs=num_envs,
            )

    def __call__(
        self, num_envs: int, *, key: Key[Array, ""]
    ) -> Int32[Array, "minibatches environments"]:
        """The environments of each minibatch, in order.

        The i-th environment of a minibatch is from the i-th block.

        Raises:
            ValueError: `num_minibatches` does not divide `num_envs`.
        """
        self.check(num_envs)
        blocks = num_envs // self.num_minibatches
        first = self.num_minibatches * jnp.arange(blocks, dtype=jnp.int32)

        def deal(epoch: UInt32[Array, ""], block: UInt32[Array, ""]) -> Int32[Array, " parts"]:
            here = jax.random.fold_in(jax.random.fold_in(key, epoch), block)
            return jax.random.permutation(here, self.num_minibatches).astype(jnp.int32)

        epochs = jnp.arange(self.update_epochs, dtype=jnp.uint32)
        each_block = jax.vmap(deal, in_axes=(None, 0), out_axes=1)
        numbers = jnp.arange(blocks, dtype=jnp.uint32)
        places = jax.vmap(each_block, in_axes=(0, None))(epochs, numbers)
        return places.reshape(self.count, blocks) + first[None]


def _near(name: str, given: int, dividend: int) -> str:
    """The divisors of `dividend` next to `given`, in the template of an `ArgumentError`."""
    return " or ".join(f"{{{name}:={each}}}" for each in neighbours(given, divisors(dividend)))


@dataclass(frozen=True)
class RolloutSizes:
    """The sizes of an update that learns from a rollout; see `PPO`.

    Each is a whole number, at least 1, and `num_minibatches * grad_accum` must divide `num_envs`.
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

    def check_mesh(self, mesh: Mesh) -> None:
        """Raises an ArgumentError unless the sizes divide over a mesh."""
        check_split(
            mesh.shape,
            num_envs=self.num_envs,
            num_minibatches=self.num_minibatches,
            grad_accum=self.grad_accum,
        )
