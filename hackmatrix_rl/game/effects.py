"""What programs do beside dealing damage (rules, section 6)."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Key, UInt8

from hackmatrix_rl.game.board import SIZE, CellSet, col_of, row_of
from hackmatrix_rl.game.damage import destroy_enemies, destroy_transmissions
from hackmatrix_rl.game.history import restore
from hackmatrix_rl.game.random import below, random_order
from hackmatrix_rl.game.state import (
    ENEMY_HP,
    NUM_ENEMY_TYPES,
    Content,
    EnemyType,
    Position,
    by_type,
    is_block,
    of_chosen,
)
from hackmatrix_rl.game.view import View


class Given(eqx.Module):
    """What an effect may use beside the position.

    Attributes:
        key: source of chance.
        snapshot: the newest one of the history, packed.
    """

    key: Key[Array, ""]
    snapshot: UInt8[Array, " snapshot_bytes"]


Effect: TypeAlias = Callable[[View, Given], tuple[Position, Int32[Array, ""]]]
"""From a position, its cost already paid, to the position after and the kills that count."""


def changing(change: Callable[[Position], Position]) -> Effect:
    """An effect that needs neither chance nor the past, and kills nobody."""

    def effect(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
        return change(view.position), jnp.int32(0)

    return effect


def gaining(**amounts: int) -> Effect:
    """Adds to the named numbers of the player."""

    def change(position: Position) -> Position:
        player = position.player
        gained = {name: getattr(player, name) + amount for name, amount in amounts.items()}
        return replace(position, player=replace(player, **gained))

    return changing(change)


def setting(flag: str) -> Effect:
    """Sets one flag of the position."""
    return changing(lambda position: replace(position, **{flag: jnp.bool_(True)}))


def crash(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Clears the 8 cells around the player of blocks, enemies and transmissions."""
    position = view.position
    board = position.board
    wiped = view.around.to_array() & is_block(board.content)
    enemies, kills = destroy_enemies(position.enemies, view.around)
    transmissions, more = destroy_transmissions(position.transmissions, view.around)
    board = replace(
        board,
        content=jnp.where(wiped, jnp.int8(Content.EMPTY), board.content),
        value=jnp.where(wiped, jnp.int8(0), board.value),
        spawn_count=jnp.where(wiped, jnp.int8(0), board.spawn_count),
    )
    after = replace(position, board=board, enemies=enemies, transmissions=transmissions)
    return after, kills + more


def warp(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Moves the player onto a random enemy or transmission, and removes what is its kind there."""
    position = view.position
    enemies, transmissions = position.enemies, position.transmissions
    present = jnp.concatenate([enemies.present, transmissions.present])
    cells = jnp.concatenate([enemies.cell, transmissions.cell])
    rank = jnp.where(present, random_order(present.size, key=given.key), jnp.uint32(0))
    target = present & (rank == jnp.max(rank))
    cell = of_chosen(target, cells)
    is_enemy = target[: enemies.present.size].any()

    there = CellSet.of(cell)
    enemies, kills = destroy_enemies(enemies, there.where(is_enemy))
    transmissions, more = destroy_transmissions(transmissions, there.where(~is_enemy))
    player = replace(position.player, cell=cell)
    after = replace(position, player=player, enemies=enemies, transmissions=transmissions)
    return after, kills + more


def poly(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Every enemy becomes one of the three other types; damage taken stays taken."""
    enemies = view.position.enemies
    bits = jax.random.bits(given.key, enemies.present.shape, jnp.uint32)
    change = 1 + below(bits, jnp.full(bits.shape, NUM_ENEMY_TYPES - 1)).astype(jnp.int8)
    kind = (enemies.type + change) & (NUM_ENEMY_TYPES - 1)
    hp = by_type(ENEMY_HP, kind) - (by_type(ENEMY_HP, enemies.type) - enemies.hp)
    dead = enemies.present & (hp <= 0)
    after = replace(
        enemies,
        present=enemies.present & ~dead,
        type=kind,
        hp=hp,
        last_known=jnp.where(kind == EnemyType.CRYPTOG, enemies.cell, enemies.last_known),
    )
    kills = jnp.sum(dead & ~enemies.from_scheduled_task, dtype=jnp.int32)
    return replace(view.position, enemies=after), kills


def push(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Enemies move one step away from the player, in row and in column."""
    cell, player = view.position.enemies.cell, view.position.player.cell
    row, col = row_of(cell), col_of(cell)
    wanted_row = jnp.clip(row + jnp.sign(row - row_of(player)), 0, SIZE - 1)
    wanted_col = jnp.clip(col + jnp.sign(col - col_of(player)), 0, SIZE - 1)
    return _moved(view, wanted_row * SIZE + wanted_col)


def pull(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Enemies move one step towards the player, but never onto its cell."""
    cell, player = view.position.enemies.cell, view.position.player.cell
    row, col = row_of(cell), col_of(cell)
    row_gap, col_gap = row_of(player) - row, col_of(player) - col
    beside = jnp.abs(row_gap) + jnp.abs(col_gap) <= 1
    diagonal = (jnp.abs(row_gap) == 1) & (jnp.abs(col_gap) == 1)
    wanted_row = row + jnp.where(beside, jnp.int8(0), jnp.sign(row_gap))
    wanted_col = col + jnp.where(beside | diagonal, jnp.int8(0), jnp.sign(col_gap))
    return _moved(view, wanted_row * SIZE + wanted_col)


def _moved(view: View, wanted: Int8[Array, " n"]) -> tuple[Position, Int32[Array, ""]]:
    """Enemies go where they want, but for a cell that one before them has gone to."""
    enemies = view.position.enemies
    wants = enemies.present & (wanted != enemies.cell)
    slots = np.arange(wants.size)
    earlier = slots[None, :] < slots[:, None]
    rival = (wanted[None, :] == wanted[:, None]) & wants[None, :] & earlier
    goes: Bool[Array, " n"] = wants & ~rival.any(axis=1)
    cell = jnp.where(goes, wanted, enemies.cell)
    return replace(view.position, enemies=replace(enemies, cell=cell)), jnp.int32(0)


def undo(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Restores the newest snapshot."""
    return restore(view.position, given.snapshot), jnp.int32(0)


def delay(position: Position) -> Position:
    """Every transmission takes 3 turns more."""
    later = position.transmissions.turns_remaining + 3
    return replace(position, transmissions=replace(position.transmissions, turns_remaining=later))


def reduce_spawns(position: Position) -> Position:
    """Every unsiphoned block calls one transmission less."""
    board = position.board
    fewer = jnp.maximum(board.spawn_count - 1, 0)
    open_ = is_block(board.content) & ~board.siphoned.to_array()
    return replace(
        position, board=replace(board, spawn_count=jnp.where(open_, fewer, board.spawn_count))
    )
