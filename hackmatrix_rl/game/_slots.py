"""Arrivals, at the end of the order (rules, section 1)."""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from hackmatrix_rl.batching import ranks
from hackmatrix_rl.game._state import Slots

Things = TypeVar("Things", bound=Slots)


def next_slot(things: Slots) -> Int32[Array, ""]:
    """The slot behind the last one taken: where an arrival goes to keep the order."""
    slots = np.arange(1, things.size + 1, dtype=np.int32)
    return jnp.max(jnp.where(things.present, slots, 0))


def first_at(things: Slots, cell: Int32[Array, ""]) -> Int32[Array, ""]:
    """The slot of the first thing on a cell; `things.size` where there is none."""
    slots = np.arange(things.size, dtype=np.int32)
    return jnp.min(jnp.where(things.present & (things.cell == cell), slots, things.size))


def word_at(things: Slots, slot: Int32[Array, ""]) -> UInt32[Array, ""]:
    """The word in a slot; 0 if there is no such slot."""
    here = np.arange(things.size, dtype=np.int32) == slot
    return jnp.max(jnp.where(here, things.words, jnp.uint32(0)))


def with_room(things: Things, arrivals: Int32[Array, ""]) -> Things:
    """The same things in the same order, closed up where arrivals would not fit behind them."""
    full = next_slot(things) + arrivals > things.size
    return type(things)(jnp.where(full, closed_up(things).words, things.words))


def closed_up(things: Things) -> Things:
    """The same things in the same order, without empty slots between."""
    place = jnp.where(things.present, ranks(things.present), -1)
    there = np.arange(things.size, dtype=np.int32)[:, None] == place[None, :]
    return type(things)(jnp.max(jnp.where(there, things.words[None, :], jnp.uint32(0)), axis=1))


def put(things: Things, slot: Int32[Array, ""], word: UInt32[Array, ""]) -> Things:
    """Things with another word in one slot; unchanged if there is no such slot."""
    here = np.arange(things.size, dtype=np.int32) == slot
    return type(things)(jnp.where(here, word, things.words))
