"""The effects of programs other than damage (rules, section 6), and their inputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._board import SIZE, CellSet, col_of, row_and_column, row_of
from hackmatrix_rl.games.hackmatrix._history import restore
from hackmatrix_rl.games.hackmatrix._state import (
    ENEMY_HP,
    LONGEST_WAIT,
    NUM_ENEMY_TYPES,
    Content,
    Enemies,
    EnemyType,
    Position,
    by_type,
    is_block,
)
from hackmatrix_rl.system.batching import Chance, below, pick


class View(eqx.Module):
    """A position as seen from the player's cell."""

    position: Position
    can_undo: Bool[Array, ""]  #: Whether the history holds a snapshot.
    enemies: CellSet  #: The cells with an enemy.
    transmissions: CellSet  #: The cells with a transmission.
    blocks: CellSet  #: The cells with a block.
    around: CellSet  #: The 8 cells around the player.
    row: CellSet  #: The cells of the player's row.
    column: CellSet  #: The cells of the player's column.

    @staticmethod
    def from_position(position: Position, *, can_undo: Bool[Array, ""]) -> "View":
        """The view of a position. `can_undo` is whether its history holds a snapshot."""
        cell = position.player.cell
        here = CellSet.from_cell(cell)
        row, column = row_and_column(cell)
        return View(
            position=position,
            can_undo=can_undo,
            enemies=position.enemies.cells,
            transmissions=position.transmissions.cells,
            blocks=position.board.blocks,
            around=here.surroundings() - here,
            row=row,
            column=column,
        )

    def any_of_type(self, kind: EnemyType) -> Bool[Array, ""]:
        """Whether an enemy of that type exists."""
        return self.of_type(kind).any()

    def of_type(self, kind: EnemyType) -> Bool[Array, " max_enemies"]:
        """The enemies of that type."""
        enemies = self.position.enemies
        return enemies.present & (enemies.type == kind)

    def standing_on(self, cells: CellSet) -> Bool[Array, " max_enemies"]:
        """The enemies on one of the cells."""
        enemies = self.position.enemies
        return enemies.present & cells.has(enemies.cell)


class Given(eqx.Module):
    """The inputs of an effect, in addition to the position."""

    chance: Chance
    snapshot: UInt32[Array, " snapshot_words"]  #: The newest snapshot of the history.
    target: Int32[Array, ""]  #: The cell of a random enemy or transmission; 0 without one.
    is_enemy: Bool[Array, ""]  #: Whether the target is an enemy.


Effect: TypeAlias = Callable[[View, Given], tuple[Position, Int32[Array, ""]]]
"""Maps a position, in which the cost is paid, to the next position and the kills that count."""


def changing(change: Callable[[Position], Position]) -> Effect:
    """An effect without randomness, history or kills."""

    def effect(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
        return change(view.position), jnp.int32(0)

    return effect


def gaining(**amounts: int) -> Effect:
    """An effect that adds amounts to fields of the player."""

    def change(position: Position) -> Position:
        player = position.player
        gained = {name: getattr(player, name) + amount for name, amount in amounts.items()}
        return replace(position, player=replace(player, **gained))

    return changing(change)


def setting(flag: str) -> Effect:
    """An effect that sets a flag of the position."""
    return changing(lambda position: replace(position, **{flag: jnp.bool_(True)}))


def crash(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Removes the blocks around the player."""
    board = view.position.board
    wiped = view.around.to_array() & is_block(board.content)
    board = board.replace(wiped, content=Content.EMPTY, value=0, spawn_count=0)
    return replace(view.position, board=board), jnp.int32(0)


def random_target(
    position: Position, *, chance: Chance
) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """The cell of a uniform enemy or transmission, and whether it is an enemy."""
    enemies, transmissions = position.enemies, position.transmissions
    present = jnp.concatenate([enemies.present, transmissions.present])
    cells = jnp.concatenate([enemies.cell, transmissions.cell])
    # The largest lot wins: 25 random bits above a 7-bit number, which breaks ties.
    numbers = np.arange(1, present.size + 1, dtype=np.uint32)
    lots = ((chance.words(present.size) >> 7) << 7) | numbers
    lots = jnp.where(present, lots, jnp.uint32(0))
    target = present & (lots == jnp.max(lots))
    return pick(target, cells), target[: enemies.size].any()


def warp(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    player = replace(view.position.player, cell=given.target)
    return replace(view.position, player=player), jnp.int32(0)


def warp_destroys(view: View, given: Given) -> tuple[CellSet, CellSet]:
    """The cells whose enemies, and whose transmissions, it destroys: one is the target's cell."""
    there = CellSet.from_cell(given.target)
    return there.where(given.is_enemy), there.where(~given.is_enemy)


def poly(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    """Turns each enemy into one of the three other types. It keeps the damage taken so far."""
    enemies = view.position.enemies
    bits = given.chance.words(enemies.size)
    kind = (enemies.type + 1 + below(bits, NUM_ENEMY_TYPES - 1)) & (NUM_ENEMY_TYPES - 1)
    hp = by_type(ENEMY_HP, kind) - (by_type(ENEMY_HP, enemies.type) - enemies.hp)
    dead = enemies.present & (hp <= 0)
    after = enemies.replace(
        present=enemies.present & ~dead,
        type=kind,
        hp=jnp.maximum(hp, 0),
        last_known=jnp.where(kind == EnemyType.CRYPTOG, enemies.cell, enemies.last_known),
    )
    kills = jnp.sum(dead & ~enemies.from_scheduled_task, dtype=jnp.int32)
    return replace(view.position, enemies=after), kills


def push(view: View) -> Int32[Array, " n"]:
    """The wanted cell of each enemy: one step away from the player in row and in column."""
    cell, player = view.position.enemies.cell, view.position.player.cell
    row, col = row_of(cell), col_of(cell)
    wanted_row = jnp.clip(row + jnp.sign(row - row_of(player)), 0, SIZE - 1)
    wanted_col = jnp.clip(col + jnp.sign(col - col_of(player)), 0, SIZE - 1)
    return wanted_row * SIZE + wanted_col


def pull(view: View) -> Int32[Array, " n"]:
    """The wanted cell of each enemy: one step towards the player, never onto the player's cell."""
    cell, player = view.position.enemies.cell, view.position.player.cell
    row, col = row_of(cell), col_of(cell)
    row_gap, col_gap = row_of(player) - row, col_of(player) - col
    adjacent = jnp.abs(row_gap) + jnp.abs(col_gap) <= 1
    diagonal = (jnp.abs(row_gap) == 1) & (jnp.abs(col_gap) == 1)
    wanted_row = row + jnp.where(adjacent, 0, jnp.sign(row_gap))
    wanted_col = col + jnp.where(adjacent | diagonal, 0, jnp.sign(col_gap))
    return wanted_row * SIZE + wanted_col


def moved(enemies: Enemies, wanted: Int32[Array, " n"]) -> Enemies:
    """Moves each enemy to its wanted cell, unless an earlier enemy moves there."""
    wants = enemies.present & (wanted != enemies.cell)
    slots = np.arange(wants.size)
    earlier = slots[None, :] < slots[:, None]
    rival = (wanted[None, :] == wanted[:, None]) & wants[None, :] & earlier
    goes: Bool[Array, " n"] = wants & ~rival.any(axis=1)
    return enemies.replace(goes, cell=wanted)


def undo(view: View, given: Given) -> tuple[Position, Int32[Array, ""]]:
    return restore(view.position, given.snapshot), jnp.int32(0)


def delay(position: Position) -> Position:
    """Adds 3 to `turns_remaining` of every transmission."""
    later = jnp.minimum(position.transmissions.turns_remaining + 3, LONGEST_WAIT)
    return replace(position, transmissions=position.transmissions.replace(turns_remaining=later))


def reduce_spawns(position: Position) -> Position:
    """Lowers `spawn_count` of every unsiphoned block by 1."""
    board = position.board
    fewer = jnp.maximum(board.spawn_count - 1, 0)
    open_ = is_block(board.content) & ~board.siphoned
    return replace(position, board=board.replace(open_, spawn_count=fewer))
