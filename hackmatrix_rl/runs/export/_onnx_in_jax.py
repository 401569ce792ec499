"""Rewrites primitives of JAX by simpler ones, and computes the indices of gather and scatter."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


class Lookup:
    """The flat indices of a gather or scatter in its operand.

    Args:
        shape: the shape of the operand.
        sizes: the size of the window at each index, for each axis of the operand.
        result: the shape of a gather's result, or of a scatter's updates.
        window: the axes of the result that belong to the window.
        dropped: the axes of the operand that the result lacks.
        indexed: the axes of the operand that the last axis of the indices refers to.
        batched: the batch axes of the operand.
        batched_indices: the batch axes of the indices, in the same order.
    """

    def __init__(
        self,
        *,
        shape: Sequence[Any],
        sizes: Sequence[Any],
        result: Sequence[Any],
        window: Sequence[Any],
        dropped: Sequence[Any] = (),
        indexed: Sequence[Any],
        batched: Sequence[Any] = (),
        batched_indices: Sequence[Any] = (),
    ) -> None:
        self._shape, self._sizes, self._result = shape, sizes, result
        self._window, self._indexed = window, indexed
        self._batched = dict(zip(map(int, batched), batched_indices, strict=True))
        lacking = {int(axis) for axis in (*dropped, *batched)}
        self._kept = [axis for axis in range(len(shape)) if axis not in lacking]
        self._others = [axis for axis in range(len(result)) if axis not in {*map(int, window)}]

    @staticmethod
    def of_window(shape: Sequence[Any], sizes: Sequence[Any]) -> "Lookup":
        """A single window, whose start is the only index."""
        axes = range(len(shape))
        return Lookup(shape=shape, sizes=sizes, result=sizes, window=axes, indexed=axes)

    def places(self, indices: Array) -> tuple[Array, Array]:
        """The flat index of each element, clipped, and whether its window was within bounds.

        Operand [3, 4], window [1, 2] at [2, 1]: row 2, columns 1 and 2 -> [[9, 10]].
        """
        zero = lax.full(self._result, 0, jnp.int32)
        places, valid = zero, zero == 0
        for axis, size in enumerate(self._shape):
            here = zero
            if axis in self._indexed:
                start = lax.index_in_dim(indices, [*self._indexed].index(axis), -1, keepdims=False)
                start, last = start.astype(jnp.int32), jnp.int32(size - self._sizes[axis])
                within = (start >= 0) & (start <= last)
                valid &= self._spread(within, self._others)
                here += self._spread(jnp.clip(start, 0, last), self._others)
            if axis in self._kept:
                of_window = self._window[self._kept.index(axis)]
                here += self._spread(lax.iota(jnp.int32, self._sizes[axis]), [of_window])
            if axis in self._batched:
                of_batch = self._others[self._batched[axis]]
                here += self._spread(lax.iota(jnp.int32, size), [of_batch])
            places += here * math.prod(self._shape[axis + 1 :])
        return places, valid

    def _spread(self, array: Array, axes: Sequence[Any]) -> Array:
        return lax.broadcast_in_dim(array, self._result, [*map(int, axes)])


def halved(
    function: Callable[..., Sequence[Array]], arrays: Sequence[Array], axes: Sequence[Any]
) -> list[Array]:
    """A reduction over axes: combines the two halves of an axis until one element remains."""
    for axis in sorted(map(int, axes), reverse=True):
        size = arrays[0].shape[axis]
        while size > 1:
            half = size // 2
            parts = [
                [lax.slice_in_dim(each, *bounds, axis=axis) for each in arrays]
                for bounds in ((0, half), (half, 2 * half), (2 * half, size))
            ]
            joined = function(*parts[:2])
            left = zip(joined, parts[2], strict=True)
            arrays = [lax.concatenate(each, axis) for each in left] if size % 2 else [*joined]
            size -= half
        arrays = [lax.squeeze(each, [axis]) for each in arrays]
    return [*arrays]


def _integer_pow(value: Array, *, y: int) -> Array:
    power = reduce(lax.mul, [value] * abs(y)) if y else jnp.ones_like(value)
    return power if y >= 0 else 1 / power


def _population_count(value: Array) -> Array:
    bits = [(value >> place) & 1 for place in range(np.iinfo(value.dtype).bits)]
    return reduce(lax.add, bits)


def _windows(function: Callable[[Array, Array], Array], empty: Callable[[Any], Any]) -> Any:
    """A windowed reduction, as a reduction over one slice for each offset within a window."""

    def reduced(
        value: Array,
        *,
        window_dimensions: Sequence[Any],
        window_strides: Sequence[Any],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[Any],
        window_dilation: Sequence[Any],
        **_: Any,
    ) -> Array:
        between = [each - 1 for each in base_dilation]
        config = [(*sides, gap) for sides, gap in zip(padding, between, strict=True)]
        padded = lax.pad(value, jnp.asarray(empty(value.dtype), value.dtype), config)
        counts = [
            (size - (window - 1) * gap - 1) // stride + 1
            for size, window, gap, stride in zip(
                padded.shape, window_dimensions, window_dilation, window_strides, strict=True
            )
        ]
        slices = []
        for place in np.ndindex(*window_dimensions):
            first = [at * gap for at, gap in zip(place, window_dilation, strict=True)]
            limits = [
                start + (count - 1) * stride + 1
                for start, count, stride in zip(first, counts, window_strides, strict=True)
            ]
            slices.append(lax.slice(padded, first, limits, window_strides))
        return reduce(function, slices)

    return reduced


def _lowest(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.inexact) else np.iinfo(dtype).min


IN_JAX: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "integer_pow": _integer_pow,
        "population_count": _population_count,
        "square": lambda value: value * value,
        "exp2": lambda value, **_: jnp.exp(value * np.float32(np.log(2))),
        "erfc": lambda value: 1 - lax.erf(value),
        "cbrt": lambda value, **_: jnp.sign(value) * jnp.abs(value) ** (1 / 3),
        "reduce_window_max": _windows(lax.max, _lowest),
        "reduce_window_sum": _windows(lax.add, lambda dtype: 0),
    }
)
"""Primitives as functions of simpler ones."""
