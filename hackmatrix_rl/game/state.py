"""A game as arrays (rules, section 1)."""

from dataclasses import replace
from enum import IntEnum
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int8, Int32, PyTree, Shaped, UInt8

from hackmatrix_rl.game.board import NUM_CELLS, CellSet
from hackmatrix_rl.game.config import GameConfig

LAST_STAGE = 8
MAX_HP = 3
NUM_PROGRAMS = 23

Tree = TypeVar("Tree", bound=PyTree)
Slots = TypeVar("Slots", "Enemies", "Transmissions")


class Content(IntEnum):
    """What a cell holds."""

    EMPTY = 0
    DATA = 1
    PROGRAM = 2
    HIDDEN_DATA = 3
    HIDDEN_PROGRAM = 4
    PICKUP = 5
    EXIT = 6


class EnemyType(IntEnum):
    """The four kinds of enemies."""

    VIRUS = 0
    DAEMON = 1
    GLITCH = 2
    CRYPTOG = 3


NUM_ENEMY_TYPES = len(EnemyType)
ENEMY_HP = np.array([2, 3, 2, 2], np.int8)
"""Full hp by type."""
ENEMY_SPEED = np.array([2, 1, 1, 1], np.int8)
"""Cells a turn by type."""


class Player(eqx.Module):
    """The player. `hp` is 0..3; nothing bounds the rest from above."""

    cell: Int8[Array, ""]
    hp: Int32[Array, ""]
    credits: Int32[Array, ""]
    energy: Int32[Array, ""]
    data_siphons: Int32[Array, ""]
    score: Int32[Array, ""]
    attack_damage: Int32[Array, ""]


class Board(eqx.Module):
    """What the 36 cells hold; cell = row * 6 + col.

    Attributes:
        content: a `Content`.
        value: points of a data block, program number (0..22) of a program block, else 0.
        spawn_count: transmissions that siphoning the block calls; 0 without a block.
        credits: 0..3, and `energy` likewise; at most one of them is not 0.
        siphoned: the cells that were siphoned.
        siphon_center: the cells on which the player stood to siphon.
    """

    content: Int8[Array, "36"]
    value: Int8[Array, "36"]
    spawn_count: Int8[Array, "36"]
    credits: Int8[Array, "36"]
    energy: Int8[Array, "36"]
    siphoned: CellSet
    siphon_center: CellSet

    @property
    def blocks(self) -> CellSet:
        """The cells with a block, known or hidden."""
        return CellSet.from_array(is_block(self.content))


class Enemies(eqx.Module):
    """Enemies in order of arrival: the order of the slots, some of which may be empty.

    Attributes:
        present: whether the slot holds an enemy; the other arrays mean nothing elsewhere.
        type: an `EnemyType`.
        cell: where it stands.
        hp: 1..3.
        disabled_turns: turns until it moves.
        stunned: it skips the coming turn.
        last_known: cell where a cryptog was last seen; -1 for an enemy that never was one.
        from_scheduled_task: came by a scheduled task: no kill is counted for it.
        spawned_from_siphon: came by a siphon.
    """

    present: Bool[Array, " max_enemies"]
    type: Int8[Array, " max_enemies"]
    cell: Int8[Array, " max_enemies"]
    hp: Int8[Array, " max_enemies"]
    disabled_turns: Int8[Array, " max_enemies"]
    stunned: Bool[Array, " max_enemies"]
    last_known: Int8[Array, " max_enemies"]
    from_scheduled_task: Bool[Array, " max_enemies"]
    spawned_from_siphon: Bool[Array, " max_enemies"]

    @property
    def cells(self) -> CellSet:
        """The cells with an enemy."""
        return CellSet.of_cells(self.cell, self.present)


class Transmissions(eqx.Module):
    """Enemies on their way, in order of arrival like `Enemies`."""

    present: Bool[Array, " max_transmissions"]
    type: Int8[Array, " max_transmissions"]
    cell: Int8[Array, " max_transmissions"]
    turns_remaining: Int32[Array, " max_transmissions"]
    from_scheduled_task: Bool[Array, " max_transmissions"]
    spawned_from_siphon: Bool[Array, " max_transmissions"]

    @property
    def cells(self) -> CellSet:
        """The cells with a transmission."""
        return CellSet.of_cells(self.cell, self.present)


class Position(eqx.Module):
    """Everything that is on the table now: a game without its past.

    Attributes:
        owned: which programs the player owns.
        dropped: spawns that found no room in `GameConfig`'s capacities, over the game.
    """

    player: Player
    board: Board
    enemies: Enemies
    transmissions: Transmissions
    owned: Bool[Array, "23"]
    stage: Int32[Array, ""]
    turn: Int32[Array, ""]
    exit_cell: Int8[Array, ""]
    show_activated: Bool[Array, ""]
    scheduled_tasks_disabled: Bool[Array, ""]
    step_active: Bool[Array, ""]
    atk_plus_uses_this_stage: Int32[Array, ""]
    scheduled_task_interval: Int32[Array, ""]
    next_scheduled_task_turn: Int32[Array, ""]
    pending_siphon_transmissions: Int32[Array, ""]
    dropped: Int32[Array, ""]


class History(eqx.Module):
    """Snapshots for UNDO in a ring (`game/history.py`).

    Attributes:
        ring: one packed snapshot a row.
        next_slot: the row that the next snapshot goes to.
        count: how many snapshots are held.
    """

    ring: UInt8[Array, "history snapshot_bytes"]
    next_slot: Int32[Array, ""]
    count: Int32[Array, ""]


class State(eqx.Module):
    """One game: the position and its history."""

    position: Position
    history: History


def is_block(content: Int8[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether a cell's content is a block, known or hidden."""
    return (content >= Content.DATA) & (content <= Content.HIDDEN_PROGRAM)


def holds_data(content: Int8[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether it is a data block, known or hidden."""
    return (content == Content.DATA) | (content == Content.HIDDEN_DATA)


def holds_program(content: Int8[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether it is a program block, known or hidden."""
    return (content == Content.PROGRAM) | (content == Content.HIDDEN_PROGRAM)


def first(members: Bool[Array, " n"]) -> Bool[Array, " n"]:
    """Only the first of the members."""
    return members & (jnp.arange(members.size) == jnp.argmax(members))


def of_chosen(chosen: Bool[Array, " n"], values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
    """The value of the one that is chosen, without a gather; no value may be negative."""
    return jnp.max(jnp.where(chosen, values, jnp.zeros_like(values)))


def by_type(table: np.ndarray, kind: Int8[Array, "*shape"]) -> Int8[Array, "*shape"]:
    """A table of the four enemy types, looked up without a gather."""
    values = jnp.full_like(kind, table[0])
    for each in range(1, NUM_ENEMY_TYPES):
        if table[each] != table[0]:
            values = jnp.where(kind == each, jnp.int8(table[each]), values)
    return values


def select(condition: Bool[Array, ""], yes: Tree, no: Tree) -> Tree:
    """`yes` if `condition` holds, else `no`; what is the same in both costs nothing."""
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), yes, no)


def next_slot(present: Bool[Array, " n"]) -> Int32[Array, ""]:
    """The slot behind the last one taken: where an arrival goes to keep the order."""
    slots = jnp.arange(1, present.size + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(present, slots, 0))


def closed_up(slots: Slots) -> Slots:
    """The same enemies or transmissions in the same order, without empty slots between."""
    order = jnp.argsort(~slots.present, stable=True)
    return jax.tree.map(lambda x: x[order], slots)


def put(slots: Slots, where: Bool[Array, " n"], **values: ArrayLike) -> Slots:
    """The slots with new values in the named fields at the marked places."""
    fields = {
        name: jnp.where(where, jnp.asarray(value, getattr(slots, name).dtype), getattr(slots, name))
        for name, value in values.items()
    }
    return replace(slots, **fields)


def no_enemies(config: GameConfig) -> Enemies:
    """Empty slots for enemies."""
    n = config.max_enemies
    no, zero = jnp.zeros(n, bool), jnp.zeros(n, jnp.int8)
    return Enemies(no, zero, zero, zero, zero, no, zero - 1, no, no)


def no_transmissions(config: GameConfig) -> Transmissions:
    """Empty slots for transmissions."""
    n = config.max_transmissions
    no, zero = jnp.zeros(n, bool), jnp.zeros(n, jnp.int8)
    return Transmissions(no, zero, zero, jnp.zeros(n, jnp.int32), no, no)


def empty_board() -> Board:
    """A board with nothing on it."""
    zero = jnp.zeros(NUM_CELLS, jnp.int8)
    return Board(zero, zero, zero, zero, zero, CellSet.empty(), CellSet.empty())
