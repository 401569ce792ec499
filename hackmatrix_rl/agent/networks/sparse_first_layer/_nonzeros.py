"""Linear maps of rows that are nearly all zeros: only the nonzeros are multiplied."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, PyTree, UInt32

from hackmatrix_rl.batching import (
    Chunk,
    for_each_chunk,
)

# Nonzeros in one round of the loop, as a share of the rows.
SHARE = 4

Value = TypeVar("Value", bound=PyTree)
Show = Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]


def add_nonzeros(
    show: Show,
    words: UInt32[Array, "rows cells"],
    weight: Float[Array, "inputs outputs"],
    sums: Float32[Array, "rows outputs"],
) -> Float32[Array, "rows outputs"]:
    """`sums + show(words of a row).ravel() @ weight`, in time that grows with the nonzeros.

    Args:
        show: the features of some cells, each by its word; of the word 0 they are 0.
        words: of the cells of each row.
        weight: to multiply by.
        sums: to add to.
    """

    def add(
        row: Int32[Array, " some"],
        column: Int32[Array, " some"],
        feature: Float32[Array, " some"],
        sums: Float32[Array, "rows outputs"],
    ) -> Float32[Array, "rows outputs"]:
        product = feature[:, None] * _rows_at(weight, column).astype(jnp.float32)
        return sums.at[row].add(product, mode="promise_in_bounds")

    return _for_each_nonzero(show, words, add, sums)


def gradient_of_nonzeros(
    show: Show, words: UInt32[Array, "rows cells"], change: Float32[Array, "rows outputs"]
) -> Float32[Array, "inputs outputs"]:
    """The gradient with respect to the weight of `add_nonzeros`.

    Args:
        show: as there.
        words: as there.
        change: the gradient with respect to the result.
    """

    def add(
        row: Int32[Array, " some"],
        column: Int32[Array, " some"],
        feature: Float32[Array, " some"],
        gradient: Float32[Array, "inputs outputs"],
    ) -> Float32[Array, "inputs outputs"]:
        share = feature[:, None] * _rows_at(change, row)
        return gradient.at[column].add(share, mode="promise_in_bounds")

    columns = words.shape[1] * jax.eval_shape(show, words[0, :1]).shape[1]
    return _for_each_nonzero(show, words, add, jnp.zeros((columns, change.shape[1]), jnp.float32))


def _rows_at(
    array: Float[Array, "rows outputs"], index: Int32[Array, " some"]
) -> Float[Array, "some outputs"]:
    return array.at[index].get(mode="promise_in_bounds")


def _for_each_nonzero(
    show: Show,
    words: UInt32[Array, "rows cells"],
    body: Callable[
        [Int32[Array, " some"], Int32[Array, " some"], Float32[Array, " some"], Value], Value
    ],
    value: Value,
) -> Value:
    """Calls `body` with the nonzero features: their rows, columns and values.

    It searches the cells for words that are not 0, then the features of these cells. To fill a
    chunk, `body` also gets zeros, some of them at row 0 and column 0.
    """
    rows, cells = words.shape
    width = -(-rows // SHARE)
    flat = words.ravel()

    def of_cells(here: Chunk, value: Value) -> Value:
        features = show(jnp.where(here.valid, flat[here.places], 0))
        channels = features.shape[1]
        numbers = features.ravel()

        def of_features(there: Chunk, value: Value) -> Value:
            cell = here.places[there.places // channels]
            column = cell % cells * channels + there.places % channels
            feature = jnp.where(there.valid, numbers[there.places], 0.0)
            return body(cell // cells, column, feature, value)

        return for_each_chunk(numbers != 0, width, of_features, value)

    return for_each_chunk(flat != 0, width, of_cells, value)
