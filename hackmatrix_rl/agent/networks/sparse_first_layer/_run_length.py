"""Linear maps of rows that repeat: a run of equal neighbours is multiplied once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree

from hackmatrix_rl.batching import (
    Chunk,
    for_each_chunk,
)

# Rows in one product: a share of all, but enough to make up for reading the weight.
SHARE = 64
LEAST = 8

Encode = Callable[[PyTree[Array]], Float[Array, " inputs"]]


def starts_of_runs(rows: PyTree[Array]) -> Bool[Array, " rows"]:
    """Where a row differs from the one before it; the first one does.

    Args:
        rows: each leaf `[rows, ...]`.
    """
    later = jax.tree.map(lambda leaf: leaf[1:], rows)
    earlier = jax.tree.map(lambda leaf: leaf[:-1], rows)
    return jnp.concatenate([jnp.ones(1, bool), rows_differ(later, earlier)])


def rows_differ(rows: PyTree[Array], others: PyTree[Array]) -> Bool[Array, " rows"]:
    """Which rows differ from the rows of `others` with the same index.

    Args:
        rows: each leaf `[rows, ...]`.
        others: the same structure and shapes.
    """
    differ = [
        jnp.any((one != other).reshape(one.shape[0], -1), axis=1)
        for one, other in zip(jax.tree.leaves(rows), jax.tree.leaves(others), strict=True)
    ]
    return jnp.any(jnp.stack(differ), axis=0)


def product_of_runs(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    weight: Float[Array, "inputs outputs"],
) -> Float[Array, "rows outputs"]:
    """`encode(row) @ weight` of each row, computed once for each run of rows.

    The result is correct for any rows. The time grows with the number of runs.

    Args:
        encode: from one row to a vector.
        rows: integers; each leaf `[rows, ...]`.
        starts: where a run begins. `encode` gives the same for all rows up to the next start.
            The first row is a start.
        weight: to multiply by.
    """

    def multiply(run: Chunk, products: Array) -> Array:
        product = encoded(encode, rows, run.places).astype(weight.dtype) @ weight
        return jax.lax.dynamic_update_slice(products, product, (run.first, 0))

    size = starts.shape[0]
    empty = jnp.zeros((_padded(size), weight.shape[1]), weight.dtype)
    products = for_each_chunk(starts, chunk_of(size), multiply, empty)
    return products.at[_run_of(starts)].get(mode="promise_in_bounds", indices_are_sorted=True)


def gradient_of_runs(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    change: Float32[Array, "rows outputs"],
) -> Float32[Array, "inputs outputs"]:
    """The gradient with respect to the weight of `product_of_runs`: of the sum over each run.

    Args:
        encode: as there.
        rows: as there.
        starts: as there.
        change: the gradient with respect to the product.
    """
    size = starts.shape[0]
    sums = jax.ops.segment_sum(
        change,
        _run_of(starts),
        _padded(size),
        indices_are_sorted=True,
        mode="promise_in_bounds",
    )

    # Beyond the last run, where the first row stands in, the sums are 0.
    def add(run: Chunk, gradient: Array) -> Array:
        inputs = encoded(encode, rows, run.places)
        return gradient + inputs.T @ jax.lax.dynamic_slice_in_dim(sums, run.first, inputs.shape[0])

    inputs = jax.eval_shape(encode, jax.tree.map(lambda leaf: leaf[0], rows)).size
    nothing = jnp.zeros((inputs, change.shape[1]), jnp.float32)
    return for_each_chunk(starts, chunk_of(size), add, nothing)


def encoded(
    encode: Encode, rows: PyTree[Array], places: Int32[Array, " some"]
) -> Float[Array, "some inputs"]:
    """The vectors of some of the rows."""
    some = jax.tree.map(lambda leaf: leaf.at[places].get(mode="promise_in_bounds"), rows)
    return jax.vmap(encode)(some)


def chunk_of(size: int) -> int:
    """How many of so many rows are multiplied at a time."""
    return max(-(-size // SHARE), min(size, LEAST))


def _run_of(starts: Bool[Array, " rows"]) -> Int32[Array, " rows"]:
    """The number of the run that each row is in."""
    return jnp.cumsum(starts, dtype=jnp.int32) - 1


def _padded(rows: int) -> int:
    """Rows in whole chunks."""
    chunk = chunk_of(rows)
    return -(-rows // chunk) * chunk
