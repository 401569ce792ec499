"""Primitives of JAX as functions of simpler ones, and the places of a gather or scatter."""

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
    """The places of a gather or scatter in its operand, as one row of numbers.

    Args:
        shape: of the operand.
        sizes: of the window at each index, for each axis of the operand.
        result: shape of what a gather gives, or of a scatter's updates.
        window: axes of the result that are of the window.
        dropped: axes of the operand that the result lacks.
        indexed: axes of the operand that the last axis of the indices is about.
        batched: axes of the operand that go with `batched_indices` of the indices.
        batched_indices: see there.
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
        """One window, whose start is the indices."""
        axes = range(len(shape))
        return Lookup(shape=shape, sizes=sizes, result=sizes, window=axes, indexed=axes)

    def places(self, indices: Array) -> tuple[Array, Array]:
        """The place of each number, in bounds, and whether its window is within bounds."""
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
    """A reduction over axes: the first half with the second one, until one is left."""
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
    """A reduction of windows, as one of as many slices as a window has places."""

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
