"""A counter-based random number generator, and integers without division or rejection."""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, Key, UInt32

from hackmatrix_rl.system.batching._bits import materialize, nth_bit, right, size_of

_GOLDEN = np.uint32(0x9E3779B9)
"""2**32 divided by the golden ratio: its multiples spread neighbouring numbers apart."""


class Stream(IntEnum):
    """The numbers for `Chance.fold_in`, by name.

    A subclass names the streams that are derived from one `Chance`. Changing a value changes the
    games of every key.
    """


class Chance(eqx.Module):
    """A source of random words, from the 64 bits of a JAX key.

    Word n is a hash of these bits and n. This is ten times as fast as JAX's generator, and a step
    of the game needs about 60 words. The key comes from JAX's generator, and is a fresh one for
    each game and step.
    """

    low: UInt32[Array, ""]
    high: UInt32[Array, ""]

    @staticmethod
    def from_key(key: Key[Array, ""]) -> "Chance":
        """The source of a key. The key must not be used for anything else."""
        data = jax.random.key_data(key)
        return Chance(data[-2], data[-1])

    of = from_key  #: The former name, for one version.

    def fold_in(self, number: int | Int32[Array, ""]) -> "Chance":
        """Derives a source. Different numbers give independent sources."""
        low = mix(self.low ^ mix(jnp.asarray(number).astype(jnp.uint32) * _GOLDEN + _GOLDEN))
        return Chance(*materialize((low, mix(self.high + low))))

    def words(self, count: int, first: int | Int32[Array, ""] = 0) -> UInt32[Array, " count"]:
        """The random words `first` to `first + count - 1`."""
        return self.bits(jnp.arange(count, dtype=jnp.int32) + first)

    def bits(self, number: int | Int32[Array, "*shape"] = 0) -> UInt32[Array, "*shape"]:
        """The random word of each number."""
        step = jnp.asarray(number).astype(jnp.uint32) * _GOLDEN
        return mix(mix(step + self.low) ^ self.high)


def mix(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijective hash of a word, in which every bit depends on every bit of the input.

    Source: "lowbias32" of C. Wellons, Prospecting for Hash Functions (2018).
    """
    word = lax.mul(lax.bitwise_xor(word, right(word, 16)), np.uint32(0x7FEB352D))
    word = lax.mul(lax.bitwise_xor(word, right(word, 15)), np.uint32(0x846CA68B))
    return lax.bitwise_xor(word, right(word, 16))


def below(
    bits: UInt32[Array, "*shape"], bound: int | Int32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """A uniform integer in 0..bound-1 from 32 random bits, for bounds up to 64.

    It multiplies the top 26 bits by the bound, and takes the top bits of the product. Each
    probability has an error of at most 2**-26.
    """
    return (((bits >> 6) * jnp.asarray(bound).astype(jnp.uint32)) >> 26).astype(jnp.int32)


def random_bit(
    bits: UInt32[Array, "*shape"], random: UInt32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """The place of a uniform set bit, from 32 random bits; 32 without a set bit."""
    return nth_bit(bits, below(random, size_of(bits)))
