"""Integers and orders from random bits, without division and without sorting."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key, UInt32

_SLOT_BITS = 7


def below(bits: UInt32[Array, "*shape"], bound: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """An integer uniform on 0..bound-1 from 32 random bits, for bounds up to 64.

    The top 26 bits times the bound fit in a word, so that each value's probability is right
    to 1 in 2**26.
    """
    return (((bits >> 6) * bound.astype(jnp.uint32)) >> 26).astype(jnp.int32)


def random_order(size: int, *, key: Key[Array, ""]) -> UInt32[Array, " size"]:
    """A distinct random rank, at least 1, for each of up to 127 things.

    25 random bits above the thing's number: ties, which the number breaks, are 1 in 2**25.
    """
    if size >= 1 << _SLOT_BITS:
        raise ValueError(f"an order of {size} things does not fit; at most 127 do")
    bits = jax.random.bits(key, (size,), jnp.uint32)
    numbers = np.arange(1, size + 1, dtype=np.uint32)
    return ((bits >> _SLOT_BITS) << _SLOT_BITS) | numbers
