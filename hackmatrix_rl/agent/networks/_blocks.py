"""Wrapped blocks, which recompute their activations or gather sharded weights.

They replace a network's `blocks`, over which `BlockActorCritic.through_blocks` scans.

Source: Zhao et al. 2023, "PyTorch FSDP: experiences on scaling fully sharded data parallel"
(weights are gathered for one block at a time, and again for its gradient).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from hackmatrix_rl.agent.precision import equations


class WrappedBlock(eqx.Module):
    """A module with the same call as the block in it."""

    block: eqx.AbstractVar[Callable[[Array], Array]]


class RecomputedBlock(WrappedBlock):
    """A block that stores only its input for the gradient, and recomputes the rest."""

    block: Callable[[Array], Array]

    def __call__(self, hidden: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        # In a loop over the blocks, a compiler cannot merge the two computations.
        recomputed = eqx.filter_checkpoint(self.block, prevent_cse=False)
        return recomputed(hidden)


class GatheredBlock(WrappedBlock):
    """A sharded block, whose weights are gathered whenever it is computed (FSDP).

    Its gradient is the mean over the devices, sharded like the weights. It uses the name of a mesh
    axis, so it works only inside `jax.shard_map`.
    """

    block: Callable[[Array], Array]
    #: The axis along which each array is sharded; `None` for a replicated array.
    cut: tuple[int | None, ...] = eqx.field(static=True)
    over: str = eqx.field(static=True)  #: The axis of the mesh.
    #: Whether the gradient gathers the weights again. If not, it stores the gathered weights,
    #: unless the block is recomputed as part of something else.
    twice: bool = eqx.field(static=True)

    def __call__(self, hidden: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        arrays, code = eqx.partition(self.block, eqx.is_array)
        shards, structure = jax.tree.flatten(arrays)

        def call(shards: list[Array], hidden: Array) -> Array:
            full = [
                shard if axis is None else _gathered(shard, axis, self.over)
                for shard, axis in zip(shards, self.cut, strict=True)
            ]
            arrays = jax.tree.unflatten(structure, full)
            block: Callable[[Array], Array] = eqx.combine(arrays, code)
            return block(hidden)

        if self.twice:
            call = jax.checkpoint(call, policy=_is_no_gather, prevent_cse=False)
        return call(shards, hidden)


def _is_no_gather(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """The checkpoint policy that saves all results except gathered arrays."""
    # A function with a custom gradient may appear here as one operation.
    called = parameters.get("call_jaxpr")
    within = [] if called is None else [each.primitive for each in equations(called)]
    return all(each.name != "all_gather" for each in (primitive, *within))


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gathered(shard: Float[Array, "*shard"], axis: int, over: str) -> Float[Array, "*full"]:
    """The full array from its shards. Its gradient is the mean over devices, in float32."""
    return jax.lax.all_gather(shard, over, axis=axis, tiled=True)


def _gathered_forward(shard: Array, axis: int, over: str) -> tuple[Array, None]:
    return _gathered(shard, axis, over), None


def _gathered_backward(axis: int, over: str, _: None, grads: Array) -> tuple[Array]:
    full = grads.astype(jnp.float32)
    total = jax.lax.psum_scatter(full, over, scatter_dimension=axis, tiled=True)
    return ((total / jax.lax.psum(1, over)).astype(grads.dtype),)


_gathered.defvjp(_gathered_forward, _gathered_backward)
