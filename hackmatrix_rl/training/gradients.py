"""The gradient of a loss on a minibatch, taken with more or less memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float32, Int32, PyTree

from hackmatrix_rl.agent import (
    REMAT,
    ActorCritic,
    Batch,
    LossMetrics,
    PrecisionPolicy,
    parameters_of,
    rematerialized,
)
from hackmatrix_rl.training.mesh import BY_ENVIRONMENT
from hackmatrix_rl.training.placement import constrain, fsdp_shardings, replicated_shardings


@runtime_checkable
class PreparedLoss(Protocol):
    """A loss that has to see a minibatch as a whole before it is cut into parts.

    A loss without `prepare` is handed one part after another as it is: whatever it
    normalises over its batch is then normalised over a part.
    """

    def prepare(self, batch: Batch) -> "tuple[Loss, Batch]":
        """The loss and the batch to cut: the mean over equal parts is that of the whole."""
        ...

    def __call__(self, policy: ActorCritic, batch: Batch) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss of a policy on a batch, whole."""
        ...


Loss = PreparedLoss | Callable[[ActorCritic, Batch], tuple[Float32[Array, ""], LossMetrics]]


class MinibatchGradient(eqx.Module):
    """Takes the gradient of a loss on a minibatch.

    Attributes:
        loss: what to descend.
        precision: in which dtype the network computes.
        parts: the minibatch is cut along its environments into so many equal parts, which
            are learned from one after another; their gradients are averaged in float32.
        remat: what of the network's inside is computed again (see `rematerialized`).
        mesh: devices over which parameters may be cut; they are gathered to compute. `None`: all
            of them are there.
    """

    loss: Loss
    precision: PrecisionPolicy
    parts: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")
    mesh: Mesh | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, not {self.parts}")
        if self.remat not in REMAT:
            raise ValueError(f"unknown remat {self.remat!r}; choose one of {', '.join(REMAT)}")

    def __call__(
        self, policy: ActorCritic, batch: Batch, scaling: PyTree[Array]
    ) -> tuple[Any, LossMetrics]:
        """The gradient, shaped like the policy, and what the loss told.

        Args:
            policy: its parameters in float32.
            batch: the minibatch.
            scaling: state of the loss scaling.

        Raises:
            ValueError: the minibatch cannot be cut into equal parts.
        """
        loss = self.loss
        if isinstance(loss, PreparedLoss):
            loss, batch = loss.prepare(batch)

        def evaluate(policy: ActorCritic, batch: Batch) -> tuple[Float32[Array, ""], LossMetrics]:
            if self.mesh is not None:  # after the cast: less is sent in 16 bits
                policy = constrain(policy, replicated_shardings(self.mesh, policy))
            return loss(rematerialized(policy, self.remat), batch)

        gradient = self.precision.grad(evaluate, scaling)
        if self._apart(loss, policy, batch):
            assert self.mesh is not None
            gradient = by_device(gradient, self.mesh)
        if self.parts == 1:
            return gradient(policy, batch)

        def add_part(sums: PyTree[Array], part: Int32[Array, ""]) -> tuple[PyTree[Array], None]:
            found, told = gradient(policy, part_of(batch, part, self.parts))
            if self.mesh is not None:  # where parameters are cut, no device adds up all of it
                found = constrain(found, fsdp_shardings(self.mesh, found))
            return jax.tree.map(jnp.add, sums, (found, told)), None

        shapes = eqx.filter_eval_shape(gradient, policy, part_of(batch, 0, self.parts))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        parts = jnp.arange(self.parts, dtype=jnp.int32)
        sums, _ = jax.lax.scan(add_part, nothing, parts)
        mean: tuple[Any, LossMetrics] = jax.tree.map(lambda leaf: leaf / self.parts, sums)
        return mean

    def _apart(self, loss: Loss, policy: ActorCritic, batch: Batch) -> bool:
        """Whether each device is to take the gradient of its own environments by itself.

        Left alone, the compiler adds up what the devices have of a gradient as it leaves the
        matrix product: in 16 bits, where the layer computes in them.
        """
        if self.mesh is None or self.mesh.size == 1 or not isinstance(loss, PreparedLoss):
            return False
        computed = jax.tree.leaves(parameters_of(self.precision.cast_to_compute(policy)))
        narrow = any(leaf.dtype.itemsize < 4 for leaf in computed)
        return narrow and batch.action.shape[1] % (self.parts * self.mesh.size) == 0


def by_device(
    gradient: Callable[[ActorCritic, Batch], tuple[Any, LossMetrics]], mesh: Mesh
) -> Callable[[ActorCritic, Batch], tuple[Any, LossMetrics]]:
    """The same gradient as a mean over the devices of a mesh, taken in float32.

    Args:
        gradient: of a loss that is a mean over environments.
        mesh: over which the environments are cut in blocks.
    """
    devices = mesh.size
    split = NamedSharding(mesh, BY_ENVIRONMENT)

    def cut(leaf: Array, axis: int) -> Array:
        size = leaf.shape[axis] // devices
        apart = leaf.reshape(*leaf.shape[:axis], devices, size, *leaf.shape[axis + 1 :])
        return jax.lax.with_sharding_constraint(jnp.moveaxis(apart, axis, 0), split)

    def mean(policy: ActorCritic, batch: Batch) -> tuple[Any, LossMetrics]:
        blocks = batch.arrays_along_environments(cut)
        found = jax.vmap(lambda block: gradient(policy, replace(batch, **block)))(blocks)
        averaged: tuple[Any, LossMetrics] = jax.tree.map(
            lambda leaf: jnp.mean(jax.lax.with_sharding_constraint(leaf, split), axis=0), found
        )
        return averaged

    return mean


def part_of(batch: Batch, part: Int32[Array, ""] | int, parts: int) -> Batch:
    """One of several equal parts of a batch: every so-manieth environment.

    Where the environments are cut over devices in blocks, each device so has its share of
    every part, and nothing has to be moved.

    Args:
        batch: to cut.
        part: which, from 0.
        parts: into how many.

    Raises:
        ValueError: they would not be equal.
    """

    def take(leaf: Array, axis: int) -> Array:
        size = leaf.shape[axis]
        if size % parts:
            raise ValueError(f"{size} environments of a minibatch do not divide into {parts} parts")
        apart = leaf.reshape(*leaf.shape[:axis], size // parts, parts, *leaf.shape[axis + 1 :])
        return jax.lax.dynamic_index_in_dim(apart, part, axis=axis + 1, keepdims=False)

    return batch.along_environments(take)
