"""Several small numbers in one word.

A game is a few hundred small numbers. One word for everything about a cell, an enemy or a
transmission means that a loop reads, writes, gathers and scatters one array in place of nine.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Bool, Int32, UInt32

from hackmatrix_rl.batching._bits import (
    has_any,
    left,
    masked,
    right,
)

Things = TypeVar("Things", bound="Packed")


@dataclass(frozen=True)
class BitField:
    """Where in a word a number stands.

    Attributes:
        shift: its lowest bit.
        width: number of bits.
    """

    shift: int
    width: int

    @property
    def largest(self) -> int:
        """The largest number that fits."""
        return (1 << self.width) - 1

    @property
    def mask(self) -> int:
        """Its bits in the word."""
        return self.largest << self.shift

    def read(self, words: UInt32[Array, "*shape"]) -> Int32[Array, "*shape"]:
        """The number in each word."""
        return lax.convert_element_type(masked(right(words, self.shift), self.largest), jnp.int32)

    def is_set(self, words: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Whether the number is not 0."""
        return has_any(masked(words, self.mask))

    def placed(self, values: ArrayLike) -> UInt32[Array, "*shape"]:
        """A word with the number alone, which must fit."""
        return left(lax.convert_element_type(values, jnp.uint32), self.shift)


def fields(**widths: int) -> dict[str, BitField]:
    """Fields of a word, one behind the other from the lowest bit.

    Raises:
        ValueError: if they do not fit in 32 bits.
    """
    table, shift = {}, 0
    for name, width in widths.items():
        table[name] = BitField(shift, width)
        shift += width
    if shift > 32:
        raise ValueError(f"fields of {shift} bits do not fit in a word of 32")
    return table


class Packed(eqx.Module):
    """Things of one kind, a word each.

    Attributes:
        words: the numbers of each thing.
        FIELDS: where they stand in its word.
    """

    FIELDS: ClassVar[dict[str, BitField]]

    words: UInt32[Array, "*n"]

    @classmethod
    def of(cls: type[Things], **values: ArrayLike) -> Things:
        """Things from their numbers, which must fit; what is not named is 0."""
        return cls(cls.word(**values))

    @classmethod
    def word(cls, **values: ArrayLike) -> UInt32[Array, "*shape"]:
        """The words of things; see `of`."""
        word = jnp.uint32(0)
        for name, value in values.items():
            word = word | cls.FIELDS[name].placed(value)
        return word

    def replace(
        self: Things, where: Bool[Array, "*n"] | bool = True, /, **values: ArrayLike
    ) -> Things:
        """The same things with other numbers, at the marked places."""
        mask = 0
        for name in values:
            mask |= self.FIELDS[name].mask
        words = (self.words & ~jnp.uint32(mask)) | self.word(**values)
        return type(self)(words if where is True else jnp.where(where, words, self.words))

    def _read(self, name: str) -> Int32[Array, "*n"]:
        return self.FIELDS[name].read(self.words)

    def _is(self, name: str) -> Bool[Array, "*n"]:
        return self.FIELDS[name].is_set(self.words)
