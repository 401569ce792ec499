"""Bits of words.

These are XLA's own operations. The operators of arrays do the same, but each of them takes JAX ten
times as long to trace, and a step of the game has thousands.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32


def left(words: UInt32[Array, "*shape"], places: int) -> UInt32[Array, "*shape"]:
    """Words with their bits moved to higher places."""
    return lax.shift_left(words, np.uint32(places))


def right(words: UInt32[Array, "*shape"], places: int) -> UInt32[Array, "*shape"]:
    """Words with their bits moved to lower places."""
    return lax.shift_right_logical(words, np.uint32(places))


def masked(words: UInt32[Array, "*shape"], mask: int) -> UInt32[Array, "*shape"]:
    """The bits of words that a mask has, too."""
    return lax.bitwise_and(words, np.uint32(mask))


def at_place(places: Int32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Words with one bit; without any where the place is negative or above 31."""
    return lax.shift_left(
        lax.full_like(places, 1, jnp.uint32), lax.convert_element_type(places, jnp.uint32)
    )


def has_any(words: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether words have a bit set."""
    return lax.ne(words, np.uint32(0))


def size_of(bits: UInt32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Number of bits that are set."""
    return lax.convert_element_type(lax.population_count(bits), jnp.int32)


def nth_bit(bits: UInt32[Array, "*shape"], index: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """The place of the bit with that index among those that are set, the lowest first."""
    base = lax.full_like(bits, 0)
    for width in (16, 8, 4, 2, 1):  # is it among the next `width` bits, or behind them?
        here = size_of(masked(lax.shift_right_logical(bits, base), (1 << width) - 1))
        behind = lax.ge(index, here)
        index = lax.select(behind, lax.sub(index, here), index)
        base = lax.select(behind, lax.add(base, np.uint32(width)), base)
    return lax.convert_element_type(base, jnp.int32)
