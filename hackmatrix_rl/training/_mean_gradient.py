"""The mean gradient of a loss over a batch: in parts, and on several devices."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float32, Int32, PyTree

from hackmatrix_rl.agent.networks import ActorCritic, rematerialized
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    ByBlock,
    by_block,
    constrain,
    devices_of_one,
    fsdp_shardings,
    on_each_device,
    replicated_shardings,
    specs_of,
)

B = TypeVar("B", bound=eqx.Module)


@runtime_checkable
class PreparedLoss(Protocol):
    """A loss that must see a whole batch before it is split into parts."""

    def prepare(self, batch: Any) -> "tuple[Loss, Any]":
        """A loss and a batch for which the mean over equal parts equals the loss of the whole."""
        ...

    def __call__(self, policy: Any, batch: Any, *context: Any) -> tuple[Any, ...]:
        """The loss of a policy on a batch, as `Loss`."""
        ...


Loss = PreparedLoss | Callable[..., tuple[Any, ...]]
"""A function of an evaluator of the policy, a batch and perhaps a context. It returns a scalar, a
tree of scalars to report, and perhaps a tree of arrays with one entry for each sample."""


class MeanGradient(eqx.Module):
    """Differentiates a loss on a batch. The fields are described in `GradientStep`.

    The loss of a batch must be the mean over its samples or environments. A loss with `prepare`
    is computed by each device of the mesh on its own samples; the gradients are averaged once, in
    float32 (gradients of blocks gathered along `fsdp` in each part). A loss without `prepare` may
    look at the whole batch at once: the compiler chooses the communication, and `grad_accum` gives
    the loss one part after another.
    """

    precision: PrecisionPolicy
    mesh: Mesh = eqx.field(static=True)
    grad_accum: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")

    def __call__(
        self,
        loss: Loss,
        policy: ActorCritic,
        scaling: PyTree[Array],
        batch: eqx.Module,
        context: tuple[Any, ...] = (),
    ) -> tuple[Any, Any, list[Any]]:
        """Gradient, metrics and arrays of the samples; see `GradientStep.gradient`."""
        by_device = devices_of_one(self.mesh) > 1 and isinstance(loss, PreparedLoss)
        if isinstance(loss, PreparedLoss):
            loss, batch = loss.prepare(batch)
        given = (self.mesh, loss, policy, scaling, context)
        if not by_device:
            (gradient, metrics), samples = self._accumulate(*given, batch)
        else:
            # A loop over steps around the blocks would gather them in each step.
            blocks = None if self.remat == "full" else by_block(self.mesh, policy)
            cut: Any = REPLICATED
            sums: Any = BY_ENVIRONMENT
            if blocks is not None:
                cut = (REPLICATED, blocks.policy, REPLICATED, REPLICATED)
                sums = (blocks.gradient, BY_ENVIRONMENT)

            def on_one(loss: Loss, policy: Any, scaling: Any, context: Any, fields: Any) -> Any:
                own = type(batch)(**fields)
                means, samples = self._accumulate(None, loss, policy, scaling, context, own, blocks)
                return jax.tree.map(lambda leaf: leaf[None], means), samples

            means, samples = on_each_device(
                self.mesh,
                on_one,
                given[1:],
                vars(batch),
                cut=cut,
                takes=specs_of(_sample_axes(batch)),
                returns=(sums, BY_ENVIRONMENT),
            )
            gradient, metrics = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), means)
        return constrain(gradient, fsdp_shardings(self.mesh, gradient)), metrics, samples

    def _accumulate(
        self,
        mesh: Mesh | None,
        loss: Loss,
        policy: ActorCritic,
        scaling: PyTree[Array],
        context: tuple[Any, ...],
        batch: eqx.Module,
        blocks: ByBlock | None = None,
    ) -> tuple[tuple[Any, Any], list[Any]]:
        """The mean gradient and metrics over the parts, and the arrays of the samples."""

        def evaluate(policy: ActorCritic, batch: eqx.Module) -> tuple[Any, tuple[Any, list[Any]]]:
            if mesh is not None:  # after the cast, because 16 bits are less to send
                policy = constrain(policy, replicated_shardings(mesh, policy))
            if blocks is not None:
                policy = blocks.gathering(policy, twice=self.remat == "none")
            value, metrics, *samples = loss(rematerialized(policy, self.remat), batch, *context)
            return value, (metrics, samples)

        gradient_of = self.precision.grad(evaluate, scaling)

        def on_part(batch: eqx.Module) -> tuple[tuple[Any, Any], list[Any]]:
            gradient, (metrics, samples) = gradient_of(policy, batch)
            return (gradient, metrics), samples

        if self.grad_accum == 1:
            return on_part(batch)

        def add(sums: Any, part: Int32[Array, ""]) -> tuple[Any, list[Any]]:
            (gradient, metrics), samples = on_part(part_of(batch, part, self.grad_accum))
            if mesh is not None:  # with cut parameters, each device adds up only its part
                gradient = constrain(gradient, fsdp_shardings(mesh, gradient))
            return jax.tree.map(jnp.add, sums, (gradient, metrics)), samples

        shapes, _ = eqx.filter_eval_shape(on_part, part_of(batch, 0, self.grad_accum))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        parts = jnp.arange(self.grad_accum, dtype=jnp.int32)
        sums, samples = jax.lax.scan(add, nothing, parts)
        means: tuple[Any, Any] = jax.tree.map(lambda leaf: leaf / self.grad_accum, sums)
        # `part_of` deals the samples out in turns.
        return means, jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), samples
        )


def mean_weights(valid: Float32[Array, " samples"]) -> Float32[Array, " samples"]:
    """Weights whose mean with any values is the mean over the valid samples; 0 without one.

    `valid` is 1 for each valid sample, 0 for the others.
    """
    return valid * (valid.size / jnp.maximum(jnp.sum(valid), 1.0))


def part_of(batch: B, part: Int32[Array, ""] | int, parts: int) -> B:
    """One of several equal parts of a batch, from 0: only every `parts`-th sample.

    If the samples are cut over devices in blocks, each device has its share of every part, and
    nothing moves. Raises a ValueError if the samples do not divide into equal parts.
    """

    def pick(leaf: Array, axis: int) -> Array:
        size = leaf.shape[axis]
        if size % parts:
            raise ValueError(f"{size} samples of a batch do not divide into {parts} parts")
        apart = leaf.reshape(*leaf.shape[:axis], size // parts, parts, *leaf.shape[axis + 1 :])
        return jax.lax.dynamic_index_in_dim(apart, part, axis=axis + 1, keepdims=False)

    picked = {
        name: jax.tree.map(partial(pick, axis=axis), getattr(batch, name))
        for name, axis in _sample_axes(batch).items()
        if axis is not None
    }
    return replace(batch, **picked)


def _sample_axes(batch: Any) -> dict[str, int | None]:
    """The axis of samples of each field; `None` for a field without this axis."""
    if hasattr(batch, "environment_axes"):
        return batch.environment_axes()
    return dict.fromkeys(vars(batch), 0)
