"""Random words by hashing, and integers from them without division or rejection."""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, Key, UInt32

from hackmatrix_rl.system.batching._bits import materialize, nth_bit, right, size_of

_GOLDEN = np.uint32(0x9E3779B9)
"""2**32 over the golden ratio: multiples of it are far apart for neighbouring numbers."""


class Stream(IntEnum):
    """Names of the sources that are derived from one `Chance`, for `Chance.fold_in`.

    A subclass names the sources of one purpose. Another value means other games from the same key.
    """


class Chance(eqx.Module):
    """A source of random words, made of the 64 bits of a JAX key.

    Word number n is a mixing hash of the source's bits and n. This takes a tenth of the time of
    JAX's generator, and a step of the game needs some 60 words. The key itself comes from JAX's
    generator and is new for every game and step.
    """

    low: UInt32[Array, ""]
    high: UInt32[Array, ""]

    @staticmethod
    def from_key(key: Key[Array, ""]) -> "Chance":
        """The source of a key. Use the key for nothing else."""
        data = jax.random.key_data(key)
        return Chance(data[-2], data[-1])

    of = from_key  #: The former name, for one version.

    def fold_in(self, number: int | Int32[Array, ""]) -> "Chance":
        """A source derived from this one; different numbers give independent sources."""
        low = mix(self.low ^ mix(jnp.asarray(number).astype(jnp.uint32) * _GOLDEN + _GOLDEN))
        return Chance(*materialize((low, mix(self.high + low))))

    def words(self, count: int, first: int | Int32[Array, ""] = 0) -> UInt32[Array, " count"]:
        """The random words with the numbers `first` to `first + count - 1`."""
        return self.bits(jnp.arange(count, dtype=jnp.int32) + first)

    def bits(self, number: int | Int32[Array, "*shape"] = 0) -> UInt32[Array, "*shape"]:
        """The random word with this number, or one for each of several numbers."""
        step = jnp.asarray(number).astype(jnp.uint32) * _GOLDEN
        return mix(mix(step + self.low) ^ self.high)


def mix(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A hash of a word: every bit depends on every bit of the input, and no two words collide.

    Source: "lowbias32" of C. Wellons, Prospecting for Hash Functions (2018).
    """
    word = lax.mul(lax.bitwise_xor(word, right(word, 16)), np.uint32(0x7FEB352D))
    word = lax.mul(lax.bitwise_xor(word, right(word, 15)), np.uint32(0x846CA68B))
    return lax.bitwise_xor(word, right(word, 16))


def below(
    bits: UInt32[Array, "*shape"], bound: int | Int32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """A uniform integer in 0..bound-1 from 32 random bits, for bounds up to 64.

    The top 26 bits times the bound fit in a word, so each probability is exact to 1 in 2**26.
    """
    return (((bits >> 6) * jnp.asarray(bound).astype(jnp.uint32)) >> 26).astype(jnp.int32)


def random_bit(
    bits: UInt32[Array, "*shape"], random: UInt32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """The place of a random set bit, each equally likely, by 32 random bits; 32 if none is set."""
    return nth_bit(bits, below(random, size_of(bits)))
