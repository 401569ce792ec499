"""Bits of words.

These are XLA's own operations. The operators of arrays do the same, but each of them takes JAX ten
times as long to trace, and a step of the game has thousands.
"""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, PyTree, UInt32

Values = TypeVar("Values", bound=PyTree)


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


def words_of_flags(
    flags: Bool[Array, " size"],
) -> tuple[UInt32[Array, " words"], Bool[Array, "words 32"]]:
    """32 flags as one word, the first as its lowest bit; and the flags word by word.

    The last word is filled up with False.
    """
    by_word = jnp.pad(flags, (0, -flags.shape[0] % 32)).reshape(-1, 32)
    ones = jnp.where(by_word, ONE_BIT[None, :], np.uint32(0))
    return jnp.sum(ones, axis=1, dtype=jnp.uint32), by_word


def nth_bit(bits: UInt32[Array, "*shape"], index: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """The place of the bit with that index among those that are set, the lowest first.

    32 if there are not so many. Counted by a reduction, which XLA works out once: a search by
    halves would be repeated in every loop that reads the place.
    """
    up_to = bits[..., None] & _UP_TO.reshape((1,) * bits.ndim + (-1,))
    return jnp.sum(size_of(up_to) <= index[..., None], axis=-1, dtype=jnp.int32)


ONE_BIT = np.uint32(1) << np.arange(32, dtype=np.uint32)
"""The bit at each place."""

_UP_TO = np.array([(2 << place) - 1 for place in range(32)], np.uint32)
"""All bits up to each."""


def materialize(values: Values) -> Values:
    """The same values, which XLA is to work out once and to keep.

    It would repeat in every loop that reads them what is cheap by itself, and what leads to it.
    On CPU XLA takes the barrier out again once it has found what is computed twice.
    """
    kept_values: Values = lax.optimization_barrier(values)
    return kept_values
