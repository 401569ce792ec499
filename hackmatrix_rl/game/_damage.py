"""Damage, removal and kills (rules, section 6, "Kills")."""

from typing import TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from hackmatrix_rl.game._board import CellSet
from hackmatrix_rl.game._slots import first_at, put, word_at
from hackmatrix_rl.game._state import Enemies, Slots, Transmissions

SomeSlots = TypeVar("SomeSlots", bound=Slots)


def hit(enemies: Enemies, damage: Int32[Array, " max_enemies"]) -> tuple[Enemies, Int32[Array, ""]]:
    """Damages enemies. Survivors are stunned, the others are removed.

    Args:
        enemies: the enemies before.
        damage: hp to take from each slot; 0 if the enemy is not hit.

    Returns:
        The enemies after, and the number of kills that count.
    """
    struck = enemies.present & (damage > 0)
    hp = jnp.where(struck, enemies.hp - jnp.minimum(damage, enemies.hp), enemies.hp)
    dead = struck & (hp <= 0)
    kills = jnp.sum(dead & ~enemies.from_scheduled_task, dtype=jnp.int32)
    stunned = enemies.stunned | (struck & ~dead)
    return enemies.replace(present=enemies.present & ~dead, hp=hp, stunned=stunned), kills


def strike(
    enemies: Enemies, cell: Int32[Array, ""], damage: Int32[Array, ""]
) -> tuple[Enemies, Int32[Array, ""]]:
    """`hit` for only the first enemy on a cell; cell -1 hits none."""
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
    """Destroys the first transmission on a cell (-1: none); also returns the kills that count."""
    slot = first_at(transmissions, cell)
    gone = Transmissions(word_at(transmissions, slot))
    counts = (slot < transmissions.size) & ~gone.from_scheduled_task
    return put(transmissions, slot, gone.replace(present=0).words), counts.astype(jnp.int32)


def destroy(slots: SomeSlots, cells: CellSet) -> tuple[SomeSlots, Int32[Array, ""]]:
    """Removes all enemies, or all transmissions, on some cells.

    Returns:
        The ones that are left, and the kills that count: at most one for each cell, decided by the
        first one there.
    """
    gone = slots.present & cells.has(slots.cell)
    kills = _kills_by_cell(gone, slots.cell, slots.from_scheduled_task)
    return slots.replace(present=slots.present & ~gone), kills


def _kills_by_cell(
    gone: Bool[Array, " n"], cell: Int32[Array, " n"], scheduled: Bool[Array, " n"]
) -> Int32[Array, ""]:
    slots = jnp.arange(gone.size)
    earlier = slots[None, :] < slots[:, None]
    together = (cell[None, :] == cell[:, None]) & gone[None, :] & earlier
    leads = gone & ~together.any(axis=1)
    return jnp.sum(leads & ~scheduled, dtype=jnp.int32)
