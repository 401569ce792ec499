"""Chance: integers and orders without division, sorting, or a hash for every draw."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, Key, UInt32

from hackmatrix_rl.batching._bits import (
    materialize,
    nth_bit,
    right,
    size_of,
)

_GOLDEN = np.uint32(0x9E3779B9)
"""2**32 over the golden ratio: steps of it keep the words of neighbouring draws far apart."""


class Chance(eqx.Module):
    """A source of random words: 64 bits, usually of a JAX key.

    The words of a source are a mixing hash of its bits and their numbers. That takes a tenth
    of the time of JAX's own generator, of which the game would need some 60 words a step; the
    bits themselves come from it, new ones for every game and step.
    """

    low: UInt32[Array, ""]
    high: UInt32[Array, ""]

    @staticmethod
    def of(key: Key[Array, ""]) -> "Chance":
        """The source of a key, which must not be used for anything else."""
        data = jax.random.key_data(key)
        return Chance(data[-2], data[-1])

    def fold_in(self, number: int | Int32[Array, ""]) -> "Chance":
        """One of many sources that follow from this one, independent of each other."""
        low = mix(self.low ^ mix(jnp.asarray(number).astype(jnp.uint32) * _GOLDEN + _GOLDEN))
        return Chance(*materialize((low, mix(self.high + low))))

    def words(self, count: int, first: int | Int32[Array, ""] = 0) -> UInt32[Array, " count"]:
        """Random words; those from `first` on, where there are more."""
        return self.bits(jnp.arange(count, dtype=jnp.int32) + first)

    def bits(self, number: int | Int32[Array, "*shape"] = 0) -> UInt32[Array, "*shape"]:
        """The random word with that number, or each of several."""
        step = jnp.asarray(number).astype(jnp.uint32) * _GOLDEN
        return mix(mix(step + self.low) ^ self.high)


def mix(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A word whose every bit depends on every bit of the one that is given; no two collide.

    Source: "lowbias32" of C. Wellons, Prospecting for Hash Functions (2018).
    """
    word = lax.mul(lax.bitwise_xor(word, right(word, 16)), np.uint32(0x7FEB352D))
    word = lax.mul(lax.bitwise_xor(word, right(word, 15)), np.uint32(0x846CA68B))
    return lax.bitwise_xor(word, right(word, 16))


def below(
    bits: UInt32[Array, "*shape"], bound: int | Int32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """An integer uniform on 0..bound-1 from 32 random bits, for bounds up to 64.

    The top 26 bits times the bound fit in a word, so that each value's probability is right
    to 1 in 2**26.
    """
    return (((bits >> 6) * jnp.asarray(bound).astype(jnp.uint32)) >> 26).astype(jnp.int32)


def random_bit(
    bits: UInt32[Array, "*shape"], random: UInt32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """The place of one of the bits that are set, each equally likely; 32 if none is set.

    Args:
        bits: the words to choose a bit of.
        random: 32 random bits for each word.
    """
    return nth_bit(bits, below(random, size_of(bits)))
