"""Enemies and transmissions: arrival, damage, removal and kills (rules, sections 1, 5 and 6)."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._board import NUM_CELLS, CellSet, line_of_sight
from hackmatrix_rl.games.hackmatrix._state import NUM_ENEMY_TYPES, Enemies, Slots, Transmissions
from hackmatrix_rl.system.batching import Chance, avoids_rounds, materialize, ranks

SomeSlots = TypeVar("SomeSlots", bound=Slots)

_STRIDE = 8
"""Transmissions spawned per round where rounds are slow. No stage starts with more."""


def next_slot(slots: Slots) -> Int32[Array, ""]:
    """The slot after the last taken one, where the next arrival goes."""
    numbers = np.arange(1, slots.size + 1, dtype=np.int32)
    return jnp.max(jnp.where(slots.present, numbers, 0))


def first_at(slots: Slots, cell: Int32[Array, ""]) -> Int32[Array, ""]:
    """The first taken slot on a cell; `slots.size` without one."""
    numbers = np.arange(slots.size, dtype=np.int32)
    return jnp.min(jnp.where(slots.present & (slots.cell == cell), numbers, slots.size))


def word_at(slots: Slots, slot: Int32[Array, ""]) -> UInt32[Array, ""]:
    """The word of a slot; 0 for a slot out of range."""
    here = np.arange(slots.size, dtype=np.int32) == slot
    return jnp.max(jnp.where(here, slots.words, jnp.uint32(0)))


def with_room(slots: SomeSlots, arrivals: Int32[Array, ""]) -> SomeSlots:
    """The slots, compacted if the arrivals would not fit after the last taken one."""
    full = next_slot(slots) + arrivals > slots.size
    return type(slots)(jnp.where(full, closed_up(slots).words, slots.words))


def closed_up(slots: SomeSlots) -> SomeSlots:
    """The slots with the taken ones first, in the same order."""
    place = jnp.where(slots.present, ranks(slots.present), -1)
    there = np.arange(slots.size, dtype=np.int32)[:, None] == place[None, :]
    return type(slots)(jnp.max(jnp.where(there, slots.words[None, :], jnp.uint32(0)), axis=1))


def put(slots: SomeSlots, slot: Int32[Array, ""], word: UInt32[Array, ""]) -> SomeSlots:
    """The slots with a new word in one of them. A slot out of range changes nothing."""
    here = np.arange(slots.size, dtype=np.int32) == slot
    return type(slots)(jnp.where(here, word, slots.words))


def spawn_transmissions(
    slots: Transmissions,
    player_cell: Int32[Array, ""],
    stops: CellSet,
    *,
    scheduled: Bool[Array, ""],
    from_siphon: Int32[Array, ""],
    unflagged: Int32[Array, ""],
    chance: Chance,
) -> tuple[Transmissions, Int32[Array, ""]]:
    """Spawns transmissions. Also returns the number that were dropped for lack of a free slot.

    The scheduled one comes first, then `from_siphon` ones, then `unflagged` ones. `stops` are the
    cells with an enemy or a block.
    """
    before_siphon = scheduled.astype(jnp.int32)
    before_unflagged = before_siphon + from_siphon
    # Each spawn takes a free cell, so there are at most as many as cells.
    total = jnp.minimum(before_unflagged + unflagged, NUM_CELLS)
    taken = stops | CellSet.from_cell(player_cell) | slots.cells
    seen = line_of_sight(player_cell, stops)

    Carry = tuple[Int32[Array, ""], CellSet, Int32[Array, ""], Transmissions]
    stride = _STRIDE if avoids_rounds() else 1

    def some(carry: Carry) -> Carry:
        index, taken, slot, slots = carry
        arrivals = []
        for _ in range(stride):
            free = ~taken
            out_of_fire = free - seen
            hidden = out_of_fire.any()
            choices = CellSet(
                jnp.where(hidden, out_of_fire.low, free.low),
                jnp.where(hidden, out_of_fire.high, free.high),
            )
            cell = choices.choose(chance.bits(2 * index))
            word = Transmissions.word(
                present=1,
                type=(chance.bits(2 * index + 1) >> 30).astype(jnp.int32),
                cell=cell,
                turns_remaining=1,
                from_scheduled_task=index < before_siphon,
                spawned_from_siphon=(index >= before_siphon) & (index < before_unflagged),
            )
            found = choices.any() & (index < total)
            arrivals.append((jnp.where(found, slot, slots.size), word))
            taken = taken | CellSet.from_cell(cell).where(found)
            index, slot = index + 1, slot + found.astype(jnp.int32)
        for place, word in materialize(arrivals):
            slots = put(slots, place, word)
        return index, taken, slot, slots

    assert NUM_ENEMY_TYPES == 4  # a type is two random bits
    slots = with_room(slots, total)
    start = (jnp.int32(0), taken, next_slot(slots), slots)
    _, _, slot, slots = jax.lax.while_loop(lambda carry: carry[0] < total, some, start)
    return slots, jnp.maximum(slot - slots.size, 0)


def hit(enemies: Enemies, damage: Int32[Array, " max_enemies"]) -> tuple[Enemies, Int32[Array, ""]]:
    """Damages enemies: stuns the survivors and removes the others. Also returns the kills."""
    struck = enemies.present & (damage > 0)
    hp = jnp.where(struck, enemies.hp - jnp.minimum(damage, enemies.hp), enemies.hp)
    dead = struck & (hp <= 0)
    kills = jnp.sum(dead & ~enemies.from_scheduled_task, dtype=jnp.int32)
    stunned = enemies.stunned | (struck & ~dead)
    return enemies.replace(present=enemies.present & ~dead, hp=hp, stunned=stunned), kills


def strike(
    enemies: Enemies, cell: Int32[Array, ""], damage: Int32[Array, ""]
) -> tuple[Enemies, Int32[Array, ""]]:
    """`hit` for the first enemy on a cell; cell -1 hits none."""
    slot = first_at(enemies, cell)
    victim = Enemies(word_at(enemies, slot))
    left = victim.hp - jnp.minimum(damage, victim.hp)
    dead = left <= 0
    struck = victim.replace(present=~dead, hp=left, stunned=victim.stunned | ~dead)
    counts = (slot < enemies.size) & dead & ~victim.from_scheduled_task
    return put(enemies, slot, struck.words), counts.astype(jnp.int32)


def cut(
    transmissions: Transmissions, cell: Int32[Array, ""]
) -> tuple[Transmissions, Int32[Array, ""]]:
    """Destroys the first transmission on a cell; cell -1 hits none. Also returns the kills."""
    slot = first_at(transmissions, cell)
    gone = Transmissions(word_at(transmissions, slot))
    counts = (slot < transmissions.size) & ~gone.from_scheduled_task
    return put(transmissions, slot, gone.replace(present=0).words), counts.astype(jnp.int32)


def destroy(slots: SomeSlots, cells: CellSet) -> tuple[SomeSlots, Int32[Array, ""]]:
    """Removes all enemies, or all transmissions, on some cells. Also returns the kills that count.

    Each cell counts as at most one kill, decided by the first one there.
    """
    gone = slots.present & cells.has(slots.cell)
    cell, scheduled = slots.cell, slots.from_scheduled_task
    numbers = jnp.arange(gone.size)
    earlier = numbers[None, :] < numbers[:, None]
    together = (cell[None, :] == cell[:, None]) & gone[None, :] & earlier
    leads = gone & ~together.any(axis=1)
    kills = jnp.sum(leads & ~scheduled, dtype=jnp.int32)
    return slots.replace(present=slots.present & ~gone), kills
