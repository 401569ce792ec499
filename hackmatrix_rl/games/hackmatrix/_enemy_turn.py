"""The enemy turn (rules, section 5)."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._board import (
    STEPS,
    CellSet,
    Direction,
    col_of,
    distance,
    first_neighbour,
    first_steps,
    row_of,
)
from hackmatrix_rl.games.hackmatrix._slots import next_slot, spawn_transmissions, with_room
from hackmatrix_rl.games.hackmatrix._state import (
    ENEMY_HP,
    ENEMY_SPEED,
    NOWHERE,
    ORIGIN,
    Enemies,
    EnemyType,
    Position,
    Transmissions,
    by_type,
)
from hackmatrix_rl.games.hackmatrix._streams import TurnStream
from hackmatrix_rl.system.batching import Chance, ranks, sparse_cond, sparse_while_loop


def enemy_turn(position: Position, takes_place: Bool[Array, ""], *, chance: Chance) -> Position:
    """One enemy turn if `takes_place`, else the same position.

    Without a turn, each part finds no enemy or transmission to act on. This is faster than
    computing the turn and selecting one of two positions.
    """
    position = replace(position, turn=position.turn + takes_place.astype(jnp.int32))
    position = arrive(position, takes_place)
    position = move_enemies(position, takes_place, chance=chance.fold_in(TurnStream.MOVES))
    position = spawn(position, takes_place, chance=chance.fold_in(TurnStream.SPAWNS))
    return recover(position, takes_place)


def arrive(position: Position, takes_place: Bool[Array, ""]) -> Position:
    """Step 2: due transmissions become enemies, the others count down by 1."""
    transmissions = position.transmissions
    left = transmissions.turns_remaining
    due = transmissions.present & (left <= 1) & takes_place

    Carry = tuple[Enemies, Int32[Array, ""]]

    def all_at_once(carry: Carry, given: tuple[Bool[Array, " n"], Transmissions]) -> Carry:
        enemies, dropped = carry
        due, transmissions = given
        cell, kind = transmissions.cell, transmissions.type
        arrivals = Enemies.word(
            present=1,
            type=kind,
            cell=cell,
            hp=by_type(ENEMY_HP, kind),
            disabled_turns=1,
            last_known=jnp.where(kind == EnemyType.CRYPTOG, cell, NOWHERE),
            **{flag: Transmissions.FIELDS[flag].read(transmissions.words) for flag in ORIGIN},
        )
        count = jnp.sum(due, dtype=jnp.int32)
        enemies = with_room(enemies, count)
        first = next_slot(enemies)
        slot = jnp.where(due, first + ranks(due), -1)
        here = np.arange(enemies.size, dtype=np.int32)[:, None] == slot[None, :]
        words = jnp.max(jnp.where(here, arrivals[None, :], jnp.uint32(0)), axis=1)
        missed = jnp.maximum(first + count - enemies.size, 0)
        return Enemies(jnp.where(words == 0, enemies.words, words)), dropped + missed

    enemies, dropped = sparse_cond(
        due.any(), all_at_once, (position.enemies, position.dropped), (due, transmissions), share=8
    )
    waiting = transmissions.replace(
        present=transmissions.present & ~due,
        turns_remaining=jnp.where(takes_place, jnp.maximum(left - 1, 0), left),
    )
    return replace(position, enemies=enemies, transmissions=waiting, dropped=dropped)


def move_enemies(position: Position, takes_place: Bool[Array, ""], *, chance: Chance) -> Position:
    """Step 3: attacks and movement."""
    enemies, player = position.enemies, position.player
    able = enemies.present & (enemies.disabled_turns == 0) & ~enemies.stunned & takes_place
    blocks = position.board.blocks
    transmissions = position.transmissions.cells
    adjacent = CellSet.from_cell(player.cell).neighbours()

    Carry = tuple[Bool[Array, " n"], Int32[Array, ""], Enemies]

    def one_step(step: Int32[Array, ""], carry: Carry) -> Carry:
        able, hp, enemies = carry
        able = able & (by_type(ENEMY_SPEED, enemies.type) > step)
        # An enemy's cell changes only by its own move. So the attackers are known before the order
        # is drawn, and the order of attacks does not matter.
        attacking = able & adjacent.has(enemies.cell)
        able = able & ~attacking
        turns = walking_order(enemies, able, chance=chance.fold_in(step))
        enemies = walk(enemies, turns, player.cell, blocks, transmissions)
        return able, hp - jnp.sum(attacking, dtype=jnp.int32), enemies

    _, hp, enemies = jax.lax.fori_loop(0, max(ENEMY_SPEED), one_step, (able, player.hp, enemies))
    player = replace(player, hp=jnp.maximum(hp, 0))
    return replace(position, enemies=enemies, player=player)


_SLOT_BITS, _SEAT_BITS = 7, 8


def walking_order(
    enemies: Enemies, walkers: Bool[Array, " max_enemies"], *, chance: Chance
) -> UInt32[Array, " max_enemies"]:
    """A word for each walker, and 0 for the other enemies. Walkers move from the largest word down.

    From the highest bit down, a word has 17 random bits, the slot plus 1 (7 bits), the cell
    (6 bits) and the type (2 bits). So it describes its walker completely.
    """
    seat = (enemies.cell << 2 | enemies.type).astype(jnp.uint32)
    return jnp.where(walkers, random_lots(enemies.size, chance=chance) | seat, jnp.uint32(0))


def random_lots(size: int, *, chance: Chance) -> UInt32[Array, " size"]:
    """Distinct random words in uniformly random order. Their lowest 8 bits are 0.

    Each has 17 random bits above the slot's number plus 1. The number breaks a tie of two words,
    which has probability 1 in 131,072.
    """
    if size >= 1 << _SLOT_BITS:
        raise ValueError(f"size must be at most 127 for an order in one word, not {size}")
    below = _SLOT_BITS + _SEAT_BITS
    numbers = np.arange(1, size + 1, dtype=np.uint32) << _SEAT_BITS
    return ((chance.words(size) >> below) << below) | numbers


def walk(
    enemies: Enemies,
    turns: UInt32[Array, " max_enemies"],
    goal: Int32[Array, ""],
    blocks: CellSet,
    transmissions: CellSet,
) -> Enemies:
    """Moves the walkers of `turns` (see `walking_order`) by one cell each, sequentially."""
    Carry = tuple[UInt32[Array, ""], Enemies]
    Given = tuple[UInt32[Array, " max_enemies"], Int32[Array, ""], CellSet, CellSet]

    def one(carry: Carry, given: Given) -> Carry:
        now, enemies = carry
        turns, goal, blocks, transmissions = given
        mover = turns == now
        cell, kind = ((now >> 2) & 63).astype(jnp.int32), (now & 3).astype(jnp.int32)

        others = CellSet.from_cells(enemies.cell, enemies.present & ~mover)
        walls = blocks.where(kind != EnemyType.GLITCH)
        target = next_cell(cell, goal, walls, others | transmissions)

        seen = (row_of(target) == row_of(goal)) | (col_of(target) == col_of(goal))
        shows = (kind == EnemyType.CRYPTOG) & (target != cell) & seen
        last_known = jnp.where(shows, target, enemies.last_known)
        enemies = enemies.replace(mover, cell=target, last_known=last_known)
        return jnp.max(jnp.where(turns < now, turns, jnp.uint32(0))), enemies

    _, enemies = sparse_while_loop(
        lambda carry, _: carry[0] != 0,
        one,
        (jnp.max(turns), enemies),
        (turns, goal, blocks, transmissions),
        shares=(1, 8),
    )
    return enemies


def next_cell(
    cell: Int32[Array, ""], goal: Int32[Array, ""], walls: CellSet, occupied: CellSet
) -> Int32[Array, ""]:
    """The cell to which an enemy on `cell` moves (section 5, "How an enemy moves")."""
    here, target = CellSet.from_cell(cell), CellSet.from_cell(goal)
    # The goal is never occupied, but may hold a block. A path has at least one step.
    open_target = target - walls - here
    free = ~walls - (occupied - target)
    adjacent = here.neighbours()

    clear = first_steps(cell, open_target, free)
    through = first_steps(cell, open_target, ~walls)
    chosen = nearest_neighbour(cell, goal, free)
    second = first_neighbour(cell, through)
    chosen = jnp.where(free.has(second) & (second != cell), second, chosen)
    chosen = jnp.where(clear.any(), first_neighbour(cell, clear), chosen)
    return jnp.where((adjacent & free).any(), chosen, cell)


def nearest_neighbour(
    cell: Int32[Array, ""], goal: Int32[Array, ""], free: CellSet
) -> Int32[Array, ""]:
    """The free neighbour nearest to the goal by Manhattan distance, first in direction order."""
    here = CellSet.from_cell(cell)
    chosen, least = cell, jnp.int32(127)
    for direction in Direction:
        adjacent = cell + STEPS[direction]
        away = distance(adjacent, goal)
        better = (here.shifted(direction) & free).any() & (away < least)
        chosen, least = jnp.where(better, adjacent, chosen), jnp.where(better, away, least)
    return chosen


def spawn(position: Position, takes_place: Bool[Array, ""], *, chance: Chance) -> Position:
    """Steps 4 and 5: spawns the scheduled transmission and the pending ones of siphons."""
    due = ~position.scheduled_tasks_disabled & (position.turn >= position.next_scheduled_task_turn)
    due = due & takes_place
    Carry = tuple[Transmissions, Int32[Array, ""]]

    def spawn_all(carry: Carry, given: Any) -> Carry:
        cell, stops, due, pending, chance = given
        slots, missed = spawn_transmissions(
            carry[0],
            cell,
            stops,
            scheduled=due,
            from_siphon=pending,
            unflagged=jnp.int32(0),
            chance=chance,
        )
        return slots, carry[1] + missed

    stops = position.enemies.cells | position.board.blocks
    pending = position.pending_siphon_transmissions
    transmissions, dropped = sparse_cond(
        takes_place & (due | (pending > 0)),
        spawn_all,
        (position.transmissions, position.dropped),
        (position.player.cell, stops, due, pending, chance),
        share=8,
    )
    next_turn = position.turn + position.scheduled_task_interval
    return replace(
        position,
        next_scheduled_task_turn=jnp.where(due, next_turn, position.next_scheduled_task_turn),
        pending_siphon_transmissions=jnp.where(takes_place, 0, pending),
        transmissions=transmissions,
        dropped=dropped,
    )


def recover(position: Position, takes_place: Bool[Array, ""]) -> Position:
    """Step 6: enemies recover."""
    enemies = position.enemies
    disabled_turns = jnp.maximum(enemies.disabled_turns - 1, 0)
    recovered = enemies.replace(takes_place, disabled_turns=disabled_turns, stunned=0)
    return replace(position, enemies=recovered)
