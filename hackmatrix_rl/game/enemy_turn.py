"""The enemy turn (rules, section 5)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32, Key, Shaped, UInt32

from hackmatrix_rl.game import sparse
from hackmatrix_rl.game.board import (
    NUM_DIRECTIONS,
    CellSet,
    col_of,
    distance,
    first_step,
    row_of,
    step_from,
)
from hackmatrix_rl.game.random import random_order
from hackmatrix_rl.game.spawning import spawn_transmissions
from hackmatrix_rl.game.state import (
    ENEMY_HP,
    ENEMY_SPEED,
    Enemies,
    EnemyType,
    Position,
    Transmissions,
    by_type,
    closed_up,
    first,
    next_slot,
    of_chosen,
    put,
)


def enemy_turn(position: Position, *, key: Key[Array, ""]) -> Position:
    """One enemy turn, where STEP does not hold it up."""
    move_key, spawn_key = jax.random.split(key)
    position = replace(position, turn=position.turn + 1)
    position = arrive(position)
    position = move_enemies(position, key=move_key)
    position = spawn(position, key=spawn_key)
    return recover(position)


def arrive(position: Position) -> Position:
    """Step 2: transmissions whose time is up become enemies, the others count down."""
    transmissions = position.transmissions
    due = transmissions.present & (transmissions.turns_remaining <= 1)
    waiting = replace(transmissions, turns_remaining=transmissions.turns_remaining - 1)

    Carry = tuple[Bool[Array, " n"], Enemies, Int32[Array, ""]]

    def one(carry: Carry, given: Transmissions) -> Carry:
        due, enemies, dropped = carry
        now = first(due)
        kind, cell = of_chosen(now, given.type), of_chosen(now, given.cell)
        slot = next_slot(enemies.present)
        fits = slot < enemies.present.size
        enemies = put(
            enemies,
            jnp.arange(enemies.present.size) == slot,
            present=True,
            type=kind,
            cell=cell,
            hp=by_type(ENEMY_HP, kind),
            disabled_turns=1,
            stunned=False,
            last_known=jnp.where(kind == EnemyType.CRYPTOG, cell, jnp.int8(-1)),
            from_scheduled_task=(now & given.from_scheduled_task).any(),
            spawned_from_siphon=(now & given.spawned_from_siphon).any(),
        )
        return due & ~now, enemies, dropped + (~fits).astype(jnp.int32)

    # Empty slots are squeezed out once, where the arrivals would not fit behind the last.
    room = position.enemies.present.size - next_slot(position.enemies.present)
    enemies = sparse.apply_if(
        jnp.sum(due, dtype=jnp.int32) > room,
        lambda slots, _: closed_up(slots),
        position.enemies,
        (),
        share=16,
    )
    _, enemies, dropped = sparse.while_loop(
        lambda carry, _: carry[0].any(),
        one,
        (due, enemies, position.dropped),
        transmissions,
        shares=(8,),
    )
    waiting = replace(waiting, present=waiting.present & ~due)
    return replace(position, enemies=enemies, transmissions=waiting, dropped=dropped)


def move_enemies(position: Position, *, key: Key[Array, ""]) -> Position:
    """Step 3: attacks and movement."""
    enemies, player = position.enemies, position.player
    able = enemies.present & (enemies.disabled_turns == 0) & ~enemies.stunned
    blocks = position.board.blocks
    transmissions = position.transmissions.cells
    beside = CellSet.of(player.cell).neighbours()

    Carry = tuple[Bool[Array, " n"], Int32[Array, ""], Enemies]

    def one_step(step: Int32[Array, ""], carry: Carry) -> Carry:
        able, hp, enemies = carry
        able = able & (by_type(ENEMY_SPEED, enemies.type) > step.astype(jnp.int8))
        # Only its own move changes where an enemy stands, so whether it will attack is known
        # before the order is drawn, and attacks need no order among themselves.
        attacking = able & beside.has(enemies.cell)
        able = able & ~attacking
        order = random_order(enemies.present.size, key=jax.random.fold_in(key, step))
        enemies = walk(enemies, able, order, player.cell, blocks, transmissions)
        return able, hp - jnp.sum(attacking, dtype=jnp.int32), enemies

    steps = int(ENEMY_SPEED.max())
    _, hp, enemies = jax.lax.fori_loop(0, steps, one_step, (able, player.hp, enemies))
    player = replace(player, hp=jnp.maximum(hp, 0))
    return replace(position, enemies=enemies, player=player)


def walk(
    enemies: Enemies,
    walkers: Bool[Array, " max_enemies"],
    order: UInt32[Array, " max_enemies"],
    goal: Int8[Array, ""],
    blocks: CellSet,
    transmissions: CellSet,
) -> Enemies:
    """Moves the walkers one cell each, one after another, the highest rank first."""
    Carry = tuple[Array, Array, Array]
    Given = tuple[Array, Array, Array, Array, CellSet, CellSet]

    def one(carry: Carry, given: Given) -> Carry:
        walkers, cells, last_known = carry
        present, kinds, order, goal, blocks, transmissions = given
        rank = jnp.where(walkers, order, jnp.uint32(0))
        mover = walkers & (rank == jnp.max(rank))
        cell, kind = of_chosen(mover, cells), of_chosen(mover, kinds)

        occupied = CellSet.of_cells(cells, present & ~mover) | transmissions
        walls = blocks.where(kind != EnemyType.GLITCH)
        target = next_cell(cell, goal, walls, occupied)

        seen = (row_of(target) == row_of(goal)) | (col_of(target) == col_of(goal))
        shows = (kind == EnemyType.CRYPTOG) & (target != cell) & seen
        cells = jnp.where(mover, target, cells)
        last_known = jnp.where(mover & shows, target, last_known)
        return walkers & ~mover, cells, last_known

    _, cells, last_known = sparse.while_loop(
        lambda carry, _: carry[0].any(),
        one,
        (walkers, enemies.cell, enemies.last_known),
        (enemies.present, enemies.type, order, goal, blocks, transmissions),
        shares=(1, 8),
    )
    return replace(enemies, cell=cells, last_known=last_known)


def next_cell(
    cell: Int8[Array, ""], goal: Int8[Array, ""], walls: CellSet, occupied: CellSet
) -> Int8[Array, ""]:
    """Where an enemy that stands on `cell` goes ("How an enemy moves")."""
    target = CellSet.of(goal)
    open_target = target - walls  # never occupied, but a block on it still counts
    occupied = occupied - target
    free = ~walls - occupied
    open_target = open_target - CellSet.of(cell)  # from the goal itself no path leads to it

    direction, has_way = first_step(cell, open_target, free)
    cells, inside = step_from(cell, jnp.arange(NUM_DIRECTIONS, dtype=jnp.int8))
    may_enter = inside & free.has(cells)

    Choice = tuple[Int8[Array, ""], Bool[Array, ""]]
    Given = tuple[Int8[Array, ""], CellSet, CellSet, Bool[Array, "4"], Int8[Array, "4"]]

    def second_best(_: Choice, given: Given) -> Choice:
        cell, open_target, walls, may_enter, distances = given
        through, has_path = first_step(cell, open_target, ~walls)
        has_path = has_path & at(may_enter, through)
        nearest = jnp.argmin(jnp.where(may_enter, distances, jnp.int8(127))).astype(jnp.int8)
        return jnp.where(has_path, through, nearest), may_enter.any()

    distances = distance(cells, jnp.full_like(cells, goal))
    direction, moves = sparse.apply_if(
        ~has_way,
        second_best,
        (direction, has_way),
        (cell, open_target, walls, may_enter, distances),
        share=16,
    )
    return jnp.where(moves, at(cells, direction), cell)


def spawn(position: Position, *, key: Key[Array, ""]) -> Position:
    """Steps 4 and 5: the scheduled task, and what siphons have called."""
    due = ~position.scheduled_tasks_disabled & (position.turn >= position.next_scheduled_task_turn)
    position = spawn_transmissions(
        position,
        scheduled=due,
        from_siphon=position.pending_siphon_transmissions,
        unflagged=jnp.int32(0),
        key=key,
    )
    next_turn = position.turn + position.scheduled_task_interval
    return replace(
        position,
        next_scheduled_task_turn=jnp.where(due, next_turn, position.next_scheduled_task_turn),
        pending_siphon_transmissions=jnp.int32(0),
    )


def recover(position: Position) -> Position:
    """Step 6: enemies recover."""
    enemies = position.enemies
    return replace(
        position,
        enemies=replace(
            enemies,
            disabled_turns=jnp.maximum(enemies.disabled_turns - 1, 0),
            stunned=jnp.zeros_like(enemies.stunned),
        ),
    )


def at(values: Shaped[Array, " n"], index: Int8[Array, ""]) -> Shaped[Array, ""]:
    """One of a few values that are not negative, without a gather."""
    return of_chosen(jnp.arange(values.size, dtype=jnp.int8) == index, values)
