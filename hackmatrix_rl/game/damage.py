"""Damage, removal and kills (rules, section 6, "Kills")."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32

from hackmatrix_rl.game.board import CellSet
from hackmatrix_rl.game.state import Enemies, Transmissions


def hit(enemies: Enemies, damage: Int8[Array, " max_enemies"]) -> tuple[Enemies, Int32[Array, ""]]:
    """Takes hp from enemies: who survives is stunned, who does not is removed.

    Args:
        enemies: before.
        damage: for each slot; 0 where the enemy is not hit.

    Returns:
        The enemies after, and the number of kills that count.
    """
    struck = enemies.present & (damage > 0)
    hp = jnp.where(struck, enemies.hp - jnp.minimum(damage, enemies.hp), enemies.hp)
    dead = struck & (hp <= 0)
    kills = jnp.sum(dead & ~enemies.from_scheduled_task, dtype=jnp.int32)
    after = replace(
        enemies, present=enemies.present & ~dead, hp=hp, stunned=enemies.stunned | (struck & ~dead)
    )
    return after, kills


def destroy_enemies(enemies: Enemies, cells: CellSet) -> tuple[Enemies, Int32[Array, ""]]:
    """Removes all enemies on some cells; each cell counts as one kill, by its first enemy."""
    gone = enemies.present & cells.has(enemies.cell)
    kills = _kills_by_cell(gone, enemies.cell, enemies.from_scheduled_task)
    return replace(enemies, present=enemies.present & ~gone), kills


def destroy_transmissions(
    transmissions: Transmissions, cells: CellSet
) -> tuple[Transmissions, Int32[Array, ""]]:
    """Removes all transmissions on some cells, with kills like `destroy_enemies`."""
    gone = transmissions.present & cells.has(transmissions.cell)
    kills = _kills_by_cell(gone, transmissions.cell, transmissions.from_scheduled_task)
    return replace(transmissions, present=transmissions.present & ~gone), kills


def _kills_by_cell(
    gone: Bool[Array, " n"], cell: Int8[Array, " n"], scheduled: Bool[Array, " n"]
) -> Int32[Array, ""]:
    slots = jnp.arange(gone.size)
    earlier = slots[None, :] < slots[:, None]
    together = (cell[None, :] == cell[:, None]) & gone[None, :] & earlier
    leads = gone & ~together.any(axis=1)
    return jnp.sum(leads & ~scheduled, dtype=jnp.int32)
