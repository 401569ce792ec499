"""New games and stage set-up (rules, sections 2 and 3)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Key

from hackmatrix_rl.game import sparse
from hackmatrix_rl.game.board import (
    CORNERS,
    NUM_CELLS,
    CellSet,
    constant_set,
    corners,
    flood,
)
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.history import empty_history
from hackmatrix_rl.game.programs import SPAWN_COSTS
from hackmatrix_rl.game.random import below
from hackmatrix_rl.game.spawning import spawn_transmissions
from hackmatrix_rl.game.state import (
    MAX_HP,
    NUM_PROGRAMS,
    Board,
    Content,
    Player,
    Position,
    State,
    empty_board,
    first,
    no_enemies,
    no_transmissions,
    of_chosen,
)

FIRST_INTERVAL = 12
"""Turns between scheduled tasks in stage 1; one less in each further stage."""
BLOCKS = (5, 11)
MAX_LAYOUTS = 100
AT_ONCE = 4
"""Layouts that are drawn side by side: the first that is accepted counts."""
MAX_POINTS = 9

_CORNER_CELLS = np.array(CORNERS, np.int8)


def new_game(config: GameConfig, *, key: Key[Array, ""]) -> State:
    """A new game in stage 1.

    Args:
        config: the game's capacities.
        key: source of the starting corner, the bonus and the first stage.
    """
    start_key, setup_key = jax.random.split(key)
    position = set_up_stage(blank_position(config, key=start_key), key=setup_key)
    return State(position=position, history=empty_history(config, position))


def blank_position(config: GameConfig, *, key: Key[Array, ""]) -> Position:
    """Section 2: the player with a starting bonus on a corner; no stage is set up yet."""
    bits = jax.random.bits(key, (2,), jnp.uint32)
    bonus = below(bits[1], jnp.int32(3))
    zero = jnp.int32(0)
    player = Player(
        cell=_corner(below(bits[0], jnp.int32(4))),
        hp=jnp.int32(MAX_HP),
        credits=jnp.where(bonus == 0, 10, zero),
        energy=jnp.where(bonus == 1, 11, zero),
        data_siphons=jnp.where(bonus == 2, 1, zero),
        score=zero,
        attack_damage=jnp.int32(1),
    )
    return Position(
        player=player,
        board=empty_board(),
        enemies=no_enemies(config),
        transmissions=no_transmissions(config),
        owned=jnp.zeros(NUM_PROGRAMS, bool),
        stage=jnp.int32(1),
        turn=zero,
        exit_cell=player.cell,
        show_activated=jnp.bool_(False),
        scheduled_tasks_disabled=jnp.bool_(False),
        step_active=jnp.bool_(False),
        atk_plus_uses_this_stage=zero,
        scheduled_task_interval=jnp.int32(FIRST_INTERVAL),
        next_scheduled_task_turn=zero,
        pending_siphon_transmissions=zero,
        dropped=zero,
    )


def set_up_stage(position: Position, *, key: Key[Array, ""]) -> Position:
    """Section 3, for the stage that `position.stage` already names."""
    exit_key, layout_key, content_key, resource_key, spawn_key = jax.random.split(key, 5)
    exit_cell = draw_exit(position.player.cell, key=exit_key)
    occupied = position.enemies.cells | position.transmissions.cells
    blocks = draw_layout(position.player.cell, exit_cell, occupied, key=layout_key)
    board = draw_contents(position.player.cell, exit_cell, blocks, key=content_key)
    board = draw_resources(board, exit_cell, blocks, key=resource_key)
    position = replace(
        position,
        board=board,
        exit_cell=exit_cell,
        turn=jnp.int32(0),
        next_scheduled_task_turn=position.scheduled_task_interval,
        show_activated=jnp.bool_(False),
        scheduled_tasks_disabled=jnp.bool_(False),
        step_active=jnp.bool_(False),
        atk_plus_uses_this_stage=jnp.int32(0),
    )
    return spawn_transmissions(
        position,
        scheduled=jnp.bool_(False),
        from_siphon=jnp.int32(0),
        unflagged=position.stage,
        key=spawn_key,
    )


def set_up_if(condition: Bool[Array, ""], position: Position, *, key: Key[Array, ""]) -> Position:
    """`set_up_stage` where the condition holds."""
    return sparse.apply_if(
        condition,
        lambda position, key: set_up_stage(position, key=key),
        position,
        key,
        share=8,
    )


def draw_exit(player_cell: Int8[Array, ""], *, key: Key[Array, ""]) -> Int8[Array, ""]:
    """One of the corners on which the player does not stand, uniformly."""
    others = corners() - CellSet.of(player_cell)
    return others.pick(below(jax.random.bits(key, (), jnp.uint32), others.size()))


def draw_layout(
    player_cell: Int8[Array, ""],
    exit_cell: Int8[Array, ""],
    occupied: CellSet,
    *,
    key: Key[Array, ""],
) -> CellSet:
    """Where the blocks stand: one number of them, and layouts drawn until one is accepted."""
    allowed = ~(corners() | occupied)
    number = BLOCKS[0] + below(
        jax.random.bits(key, (), jnp.uint32), jnp.int32(BLOCKS[1] - BLOCKS[0] + 1)
    )
    number = jnp.minimum(number, allowed.size())

    Carry = tuple[Int32[Array, ""], Bool[Array, ""], CellSet]

    Given = tuple[CellSet, Int32[Array, ""], Int8[Array, ""], Int8[Array, ""], Key[Array, ""]]

    def draw(carry: Carry, given: Given) -> Carry:
        tries, _, _ = carry
        allowed, number, player_cell, exit_cell, key = given
        keys = jax.random.split(jax.random.fold_in(key, tries + 1), AT_ONCE)
        drawn = jax.vmap(lambda key: draw_cells(allowed, number, key=key))(keys)
        accepted = jax.vmap(acceptable, in_axes=(0, None, None))(drawn, player_cell, exit_cell)
        chosen = first(accepted)
        blocks = CellSet(of_chosen(chosen, drawn.low), of_chosen(chosen, drawn.high))
        return tries + AT_ONCE, accepted.any(), blocks

    _, accepted, blocks = sparse.while_loop(
        lambda carry, _: ~carry[1] & (carry[0] < MAX_LAYOUTS),
        draw,
        (jnp.int32(0), jnp.bool_(False), CellSet.empty()),
        (allowed, number, player_cell, exit_cell, key),
        shares=(1, 8),
    )
    return blocks.where(accepted)


def draw_cells(allowed: CellSet, number: Int32[Array, ""], *, key: Key[Array, ""]) -> CellSet:
    """`number` distinct cells among the allowed ones, uniformly."""
    bits = jax.random.bits(key, (BLOCKS[1],), jnp.uint32)

    def draw(index: Int32[Array, ""], left: CellSet) -> CellSet:
        chosen = CellSet.of(left.pick(below(bits[index], left.size())))
        return left - chosen.where(index < number)

    return allowed - jax.lax.fori_loop(0, BLOCKS[1], draw, allowed)


def acceptable(
    blocks: CellSet, player_cell: Int8[Array, ""], exit_cell: Int8[Array, ""]
) -> Bool[Array, ""]:
    """Whether the free cells are connected, and no block is walled in by blocks."""
    free = ~blocks
    # The exit is reached but not walked through, unless it is at (0, 0): the original's quirk.
    no_thoroughfare = CellSet.of(exit_cell) - constant_set((0,))
    reached, _, _ = flood(
        CellSet.of(player_cell), free, until=CellSet.empty(), barrier=no_thoroughfare
    )
    unreached = free - reached
    walled_in = blocks - free.neighbours()
    return ~unreached.any() & ~walled_in.any()


def draw_contents(
    player_cell: Int8[Array, ""],
    exit_cell: Int8[Array, ""],
    blocks: CellSet,
    *,
    key: Key[Array, ""],
) -> Board:
    """What the blocks are; the exit; pickups on the two corners left over."""
    kind_key, points_key, program_key = jax.random.split(key, 3)
    is_block = blocks.to_array()
    kind = jax.random.bits(kind_key, (NUM_CELLS,), jnp.uint32)
    # The top bit says data or program; the bits below it whether the block is hidden.
    program = is_block & (kind >> 31 == 1)
    hidden = below(kind << 1, jnp.full(NUM_CELLS, 10)) == 0
    points = 1 + below(
        jax.random.bits(points_key, (NUM_CELLS,), jnp.uint32), jnp.full(NUM_CELLS, MAX_POINTS)
    )
    number = distinct_programs(program, key=program_key)

    shown = jnp.where(program, Content.PROGRAM, Content.DATA)
    secret = jnp.where(program, Content.HIDDEN_PROGRAM, Content.HIDDEN_DATA)
    exit_ = CellSet.of(exit_cell)
    pickups = (corners() - exit_ - CellSet.of(player_cell)).to_array()
    content = jnp.where(
        is_block,
        jnp.where(hidden, secret, shown),
        jnp.where(
            exit_.to_array(), Content.EXIT, jnp.where(pickups, Content.PICKUP, Content.EMPTY)
        ),
    )
    spawn_cost = jnp.asarray(SPAWN_COSTS)[number]
    value = jnp.where(program, number, points)
    return replace(
        empty_board(),
        content=content.astype(jnp.int8),
        value=jnp.where(is_block, value, 0).astype(jnp.int8),
        spawn_count=jnp.where(is_block, jnp.where(program, spawn_cost, points), 0).astype(jnp.int8),
    )


def distinct_programs(wanted: Bool[Array, "36"], *, key: Key[Array, ""]) -> Int32[Array, "36"]:
    """A program for each cell that wants one, all different, uniformly; 0 elsewhere."""
    bits = jax.random.bits(key, (NUM_PROGRAMS,), jnp.uint32)
    programs = np.arange(NUM_PROGRAMS, dtype=np.uint32)
    keys = ((bits >> 5) << 5) | programs  # distinct: ties of 27 bits are broken by number
    rank = jnp.sum(keys[:, None] > keys[None, :], axis=1, dtype=jnp.int32)
    turn = jnp.cumsum(wanted, dtype=jnp.int32) - 1
    chosen = (rank[None, :] == turn[:, None]) & wanted[:, None]
    return jnp.sum(
        jnp.where(chosen, programs.astype(np.int32)[None, :], 0), axis=1, dtype=jnp.int32
    )


def draw_resources(
    board: Board, exit_cell: Int8[Array, ""], blocks: CellSet, *, key: Key[Array, ""]
) -> Board:
    """1, 2 or 3 credits or energy on every cell without a block but the exit."""
    bits = jax.random.bits(key, (NUM_CELLS,), jnp.uint32)
    share = (bits >> 1).astype(jnp.float32) / np.float32(
        1 << 31
    )  # the bit left out chooses the kind
    amount = 1 + (share >= 0.45).astype(jnp.int8) + (share >= 0.9).astype(jnp.int8)
    amount = jnp.where((~(blocks | CellSet.of(exit_cell))).to_array(), amount, 0)
    credit = (bits & 1) == 0
    return replace(
        board,
        credits=jnp.where(credit, amount, 0).astype(jnp.int8),
        energy=jnp.where(credit, 0, amount).astype(jnp.int8),
    )


def _corner(index: Int32[Array, ""]) -> Int8[Array, ""]:
    return jnp.asarray(_CORNER_CELLS)[index]
