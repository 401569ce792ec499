"""Arrivals go to the end of the order (rules, section 1)."""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from hackmatrix_rl.batching import ranks
from hackmatrix_rl.game._state import Slots

SomeSlots = TypeVar("SomeSlots", bound=Slots)


def next_slot(slots: Slots) -> Int32[Array, ""]:
    """The slot after the last one taken. An arrival goes there, which keeps the order."""
    numbers = np.arange(1, slots.size + 1, dtype=np.int32)
    return jnp.max(jnp.where(slots.present, numbers, 0))


def first_at(slots: Slots, cell: Int32[Array, ""]) -> Int32[Array, ""]:
    """The first taken slot on a cell; `slots.size` if there is none."""
    numbers = np.arange(slots.size, dtype=np.int32)
    return jnp.min(jnp.where(slots.present & (slots.cell == cell), numbers, slots.size))


def word_at(slots: Slots, slot: Int32[Array, ""]) -> UInt32[Array, ""]:
    """The word in a slot; 0 if there is no such slot."""
    here = np.arange(slots.size, dtype=np.int32) == slot
    return jnp.max(jnp.where(here, slots.words, jnp.uint32(0)))


def with_room(slots: SomeSlots, arrivals: Int32[Array, ""]) -> SomeSlots:
    """The slots, closed up if the arrivals would not fit behind the last one taken."""
    full = next_slot(slots) + arrivals > slots.size
    return type(slots)(jnp.where(full, closed_up(slots).words, slots.words))


def closed_up(slots: SomeSlots) -> SomeSlots:
    """The slots in the same order, the empty ones at the end."""
    place = jnp.where(slots.present, ranks(slots.present), -1)
    there = np.arange(slots.size, dtype=np.int32)[:, None] == place[None, :]
    return type(slots)(jnp.max(jnp.where(there, slots.words[None, :], jnp.uint32(0)), axis=1))


def put(slots: SomeSlots, slot: Int32[Array, ""], word: UInt32[Array, ""]) -> SomeSlots:
    """The slots with another word in one of them; unchanged if there is no such slot."""
    here = np.arange(slots.size, dtype=np.int32) == slot
    return type(slots)(jnp.where(here, word, slots.words))
