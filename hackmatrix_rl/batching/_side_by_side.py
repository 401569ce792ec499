"""Several variants of each game, as one longer batch."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

Each = TypeVar("Each", bound=PyTree)
Shared = TypeVar("Shared", bound=PyTree)
Result = TypeVar("Result", bound=PyTree)


def side_by_side(function: Callable[[Each, Shared], Result], each: Each, shared: Shared) -> Result:
    """`function(each[n], shared)` for every n, stacked along a first axis.

    In a batch of games, the variants of all games become one batch. `jax.vmap` inside a game
    would make them an inner axis, and the loops of `batching` would work on each game's few
    variants by themselves.

    Args:
        function: one variant of one game.
        each: what differs; every leaf has the same first axis.
        shared: what all variants of a game share. What all games share, too, is not copied.
    """

    @custom_vmap
    def run(each: Each, shared: Shared) -> Result:
        return jax.vmap(function, in_axes=(0, None))(each, shared)

    @run.def_vmap
    def run_batch(size: int, batched: PyTree, each: Each, shared: Shared) -> PyTree:
        def spread(leaf: Any, is_batched: bool) -> Array:
            return leaf if is_batched else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf)))

        each = jax.tree.map(spread, each, batched[0])
        count = jax.tree.leaves(each)[0].shape[1]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), each)
        # What all games share, such as a network, is not copied for each variant.
        own, common = eqx.partition(shared, batched[1])
        repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=0), own)
        results = jax.vmap(lambda one, own: function(one, eqx.combine(own, common)))(flat, repeated)
        results = jax.tree.map(lambda leaf: leaf.reshape(size, count, *leaf.shape[1:]), results)
        return results, jax.tree.map(lambda _: True, results)

    result: Result = run(each, shared)
    return result
