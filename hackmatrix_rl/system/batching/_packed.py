"""Records of small numbers, packed into one 32-bit word each.

A game has a few hundred small numbers. With one word per cell, a loop reads, writes, gathers and
scatters one array instead of one per field.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Bool, Int32, UInt32

from hackmatrix_rl.system.batching._bits import has_any, left, masked, right

Records = TypeVar("Records", bound="Packed")


@dataclass(frozen=True)
class BitField:
    """The bits of a word that hold one number: `width` bits from bit `shift` up."""

    shift: int
    width: int

    @property
    def largest(self) -> int:
        """The largest number that fits."""
        return (1 << self.width) - 1

    @property
    def mask(self) -> int:
        """The word in which only these bits are set."""
        return self.largest << self.shift

    def read(self, words: UInt32[Array, "*shape"]) -> Int32[Array, "*shape"]:
        """The number in each word."""
        return lax.convert_element_type(masked(right(words, self.shift), self.largest), jnp.int32)

    def is_set(self, words: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Whether the number is not 0."""
        return has_any(masked(words, self.mask))

    def placed(self, values: ArrayLike) -> UInt32[Array, "*shape"]:
        """Words with these numbers in the field, and 0 elsewhere. The numbers must fit."""
        return left(lax.convert_element_type(values, jnp.uint32), self.shift)


def fields(**widths: int) -> dict[str, BitField]:
    """Adjacent fields of these widths, from the lowest bit up.

    fields(a=3, b=5) -> {"a": BitField(0, 3), "b": BitField(3, 5)}
    """
    table, shift = {}, 0
    for name, width in widths.items():
        table[name] = BitField(shift, width)
        shift += width
    if shift > 32:
        raise ValueError(f"fields of {shift} bits do not fit in a word of 32")
    return table


class Packed(eqx.Module):
    """Records of one kind, one word each. `FIELDS` are the bits of each field, by name."""

    FIELDS: ClassVar[dict[str, BitField]]

    words: UInt32[Array, "*n"]

    @classmethod
    def from_fields(cls: type[Records], **values: ArrayLike) -> Records:
        """Records with these numbers, which must fit. All other fields are 0."""
        return cls(cls.word(**values))

    @classmethod
    def word(cls, **values: ArrayLike) -> UInt32[Array, "*shape"]:
        """The words of `from_fields`."""
        word = jnp.uint32(0)
        for name, value in values.items():
            word = word | cls.FIELDS[name].placed(value)
        return word

    def replace(
        self: Records, where: Bool[Array, "*n"] | bool = True, /, **values: ArrayLike
    ) -> Records:
        """The records with new numbers in the named fields, where `where` holds."""
        mask = sum(self.FIELDS[name].mask for name in values)
        words = (self.words & ~jnp.uint32(mask)) | self.word(**values)
        return type(self)(words if where is True else jnp.where(where, words, self.words))


class _Named:
    """An attribute that knows its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Number(_Named):
    """A field of numbers, with the name of the attribute."""

    def __get__(self, records: Packed, owner: type) -> Int32[Array, "*n"]:
        return records.FIELDS[self.name].read(records.words)


class Flag(_Named):
    """A field of flags, with the name of the attribute."""

    def __get__(self, records: Packed, owner: type) -> Bool[Array, "*n"]:
        return records.FIELDS[self.name].is_set(records.words)
