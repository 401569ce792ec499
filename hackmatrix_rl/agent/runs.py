"""Linear maps of rows that repeat: neighbours that are equal are multiplied once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree

# Rows that are multiplied at a time, as a share of all.
SHARE = 16

Encode = Callable[[PyTree[Array]], Float[Array, " inputs"]]


def starts_of_runs(rows: PyTree[Array]) -> Bool[Array, " rows"]:
    """Where a row differs from the one before it; the first one does.

    Args:
        rows: each leaf `[rows, ...]`.
    """
    leaves = jax.tree.leaves(rows)
    differs = jnp.zeros(leaves[0].shape[0] - 1, bool)
    for leaf in leaves:
        flat = leaf.reshape(leaf.shape[0], -1)
        differs = differs | jnp.any(flat[1:] != flat[:-1], axis=1)
    return jnp.concatenate([jnp.ones(1, bool), differs])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def product_of_runs(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    weight: Float[Array, "inputs outputs"],
) -> Float[Array, "rows outputs"]:
    """`encode(row) @ weight` of each row, computed once for each run of rows.

    The same as that product whatever the rows are; it takes as long as there are runs. So does
    its gradient, which is taken with respect to the weight alone. That is on a CPU; on an
    accelerator, which is faster with one large product, all rows are multiplied.

    Args:
        encode: from one row to a vector.
        rows: integers; each leaf `[rows, ...]`.
        starts: where a run begins: rows are encoded alike from there to the next start. The
            first row is one.
        weight: to multiply by.
    """
    return _forward(encode, rows, starts, weight)[0]


def _forward(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    weight: Float[Array, "inputs outputs"],
) -> tuple[Float[Array, "rows outputs"], tuple[Any, ...]]:
    given = (rows, starts, weight)
    product: Float[Array, "rows outputs"] = jax.lax.platform_dependent(
        *given,
        cpu=partial(_multiply_runs, encode),
        default=lambda rows, _, weight: jax.vmap(encode)(rows).astype(weight.dtype) @ weight,
    )
    return product, given


def _backward(
    encode: Encode, given: tuple[Any, ...], change: Float[Array, "rows outputs"]
) -> tuple[None, None, Float[Array, "inputs outputs"]]:
    rows, starts, weight = given
    wide = change.astype(jnp.float32)
    gradient: Float[Array, "inputs outputs"] = jax.lax.platform_dependent(
        rows,
        starts,
        wide,
        cpu=partial(_add_up_runs, encode),
        default=lambda rows, _, wide: jax.vmap(encode)(rows).T @ wide,
    )
    return None, None, gradient.astype(weight.dtype)


product_of_runs.defvjp(_forward, _backward)


def _multiply_runs(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    weight: Float[Array, "inputs outputs"],
) -> Float[Array, "rows outputs"]:
    def multiply(
        first: Int32[Array, ""], inputs: Float[Array, "chunk inputs"], products: Array
    ) -> Array:
        product = inputs.astype(weight.dtype) @ weight
        return jax.lax.dynamic_update_slice(products, product, (first, 0))

    empty = jnp.zeros((_padded(starts.shape[0]), weight.shape[1]), weight.dtype)
    products = _for_each_chunk(encode, rows, starts, multiply, empty)
    return products.at[_run_of(starts)].get(mode="promise_in_bounds", indices_are_sorted=True)


def _add_up_runs(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    change: Float32[Array, "rows outputs"],
) -> Float32[Array, "inputs outputs"]:
    sums = jax.ops.segment_sum(
        change,
        _run_of(starts),
        _padded(starts.shape[0]),
        indices_are_sorted=True,
        mode="promise_in_bounds",
    )

    def add(
        first: Int32[Array, ""], inputs: Float[Array, "chunk inputs"], gradient: Array
    ) -> Array:
        return gradient + inputs.T @ jax.lax.dynamic_slice_in_dim(sums, first, inputs.shape[0])

    inputs = jax.eval_shape(encode, jax.tree.map(lambda leaf: leaf[0], rows)).size
    return _for_each_chunk(
        encode, rows, starts, add, jnp.zeros((inputs, change.shape[1]), jnp.float32)
    )


def _run_of(starts: Bool[Array, " rows"]) -> Int32[Array, " rows"]:
    """The number of the run that each row is in."""
    return jnp.cumsum(starts, dtype=jnp.int32) - 1


def _padded(rows: int) -> int:
    """Rows in whole chunks."""
    chunk = -(-rows // SHARE)
    return -(-rows // chunk) * chunk


def _for_each_chunk(
    encode: Encode,
    rows: PyTree[Array],
    starts: Bool[Array, " rows"],
    body: Callable[[Int32[Array, ""], Float[Array, "chunk inputs"], Array], Array],
    value: Array,
) -> Array:
    """Goes through the first rows of all runs, a chunk at a time.

    Beyond the last run the first row stands in for those that are missing.
    """
    count = starts.shape[0]
    chunk = -(-count // SHARE)
    (first_rows,) = jnp.nonzero(starts, size=_padded(count), fill_value=0)
    runs = jnp.sum(starts, dtype=jnp.int32)

    def one(number: Int32[Array, ""], value: Array) -> Array:
        first = number * chunk
        here = jax.lax.dynamic_slice_in_dim(first_rows, first, chunk)
        taken = jax.tree.map(lambda leaf: leaf.at[here].get(mode="promise_in_bounds"), rows)
        return body(first, jax.vmap(encode)(taken), value)

    return jax.lax.fori_loop(0, (runs + chunk - 1) // chunk, one, value)
