"""Blocks that do more than their network says: compute themselves again, or gather their weights.

They take the place of a network's `blocks`, which a loop applies one after another.

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
    """Another module with the call of a block."""

    block: eqx.AbstractVar[Callable[[Array], Array]]


class RecomputedBlock(WrappedBlock):
    """A block that keeps only its input for the gradient, and computes the rest again."""

    block: Callable[[Array], Array]

    def __call__(self, hidden: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The output of the block."""
        # In a loop over the blocks no compiler can merge the two computations.
        recomputed = eqx.filter_checkpoint(self.block, prevent_cse=False)
        return recomputed(hidden)


class GatheredBlock(WrappedBlock):
    """A block of which each device has a part, and which is gathered whenever it is computed.

    Its gradient is the mean over the devices, of which each gets its part. It needs the names of
    the axes of a mesh, so it works only within `jax.shard_map`.
    """

    block: Callable[[Array], Array]
    #: The axis of each array that is cut; `None` for an array that each device has whole.
    cut: tuple[int | None, ...] = eqx.field(static=True)
    over: str = eqx.field(static=True)  #: The axis of the mesh.
    #: Whether the gradient gathers again. If not, it keeps what was gathered, unless something
    #: around the block computes all of it again.
    twice: bool = eqx.field(static=True)

    def __call__(self, hidden: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The output of the block."""
        arrays, code = eqx.partition(self.block, eqx.is_array)
        parts: list[Array] = jax.tree.leaves(arrays)

        structure = jax.tree.structure(arrays)

        def call(parts: list[Array], hidden: Array) -> Array:
            whole = [
                part if axis is None else _gathered(part, axis, self.over)
                for part, axis in zip(parts, self.cut, strict=True)
            ]
            arrays = jax.tree.unflatten(structure, whole)
            block: Callable[[Array], Array] = eqx.combine(arrays, code)
            return block(hidden)

        if self.twice:
            call = jax.checkpoint(call, policy=_is_no_gather, prevent_cse=False)
        return call(parts, hidden)


def _is_no_gather(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Whether the gradient may keep what an operation returns."""
    # A function with a custom gradient may appear here as one operation.
    called = parameters.get("call_jaxpr")
    within = [] if called is None else [each.primitive for each in equations(called)]
    return all(each.name != "all_gather" for each in (primitive, *within))


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gathered(part: Float[Array, "*part"], axis: int, over: str) -> Float[Array, "*whole"]:
    """The whole array from the parts of all devices. Its gradient is their mean, in float32."""
    return jax.lax.all_gather(part, over, axis=axis, tiled=True)


def _gathered_forward(part: Array, axis: int, over: str) -> tuple[Array, None]:
    return _gathered(part, axis, over), None


def _gathered_backward(axis: int, over: str, _: None, grads: Array) -> tuple[Array]:
    full = grads.astype(jnp.float32)
    total = jax.lax.psum_scatter(full, over, scatter_dimension=axis, tiled=True)
    return ((total / jax.lax.psum(1, over)).astype(grads.dtype),)


_gathered.defvjp(_gathered_forward, _gathered_backward)
