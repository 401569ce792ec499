"""Siphoning (rules, section 4, and `siphon_quality` of section 9)."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Shaped, UInt32

from hackmatrix_rl.batching import (
    pick,
    union,
)
from hackmatrix_rl.game._board import (
    NUM_CELLS,
    SIZE,
    CellSet,
)
from hackmatrix_rl.game._state import (
    Board,
    Content,
    Position,
    holds_data,
    holds_program,
)

SHORTEST_INTERVAL = 4
RESPITE = 5
"""Turns that a siphon puts off the next scheduled task."""


def siphon(position: Position) -> Position:
    """The effect of the action siphon."""
    board, player = position.board, position.player
    here = CellSet.of(player.cell)
    cross = here | here.neighbours()
    reached = cross.to_array() & ~board.siphoned
    data = reached & holds_data(board.content)
    program = reached & holds_program(board.content)
    block = data | program
    loose = reached & ~block

    def total(values: Array, where: Bool[Array, "36"]) -> Int32[Array, ""]:
        return jnp.sum(jnp.where(where, values, 0), dtype=jnp.int32)

    interval = position.scheduled_task_interval - 1
    shown = jnp.where(program, Content.PROGRAM, jnp.where(data, Content.DATA, board.content))
    return replace(
        position,
        player=replace(
            player,
            score=player.score + total(board.value, data),
            credits=player.credits + total(board.credits, loose),
            energy=player.energy + total(board.energy, loose),
            data_siphons=player.data_siphons - 1,
        ),
        board=board.replace(
            content=shown,
            spawn_count=jnp.where(block, 0, board.spawn_count),
            credits=jnp.where(loose, 0, board.credits),
            energy=jnp.where(loose, 0, board.energy),
            siphoned=board.siphoned | cross.to_array(),
            siphon_center=board.siphon_center | here.to_array(),
        ),
        programs=position.programs | union(jnp.where(program, program_bit(board), jnp.uint32(0))),
        pending_siphon_transmissions=position.pending_siphon_transmissions
        + total(board.spawn_count, block),
        scheduled_task_interval=jnp.maximum(interval, SHORTEST_INTERVAL),
        next_scheduled_task_turn=position.next_scheduled_task_turn + RESPITE,
    )


def siphon_quality(position: Position) -> Float32[Array, ""]:
    """The penalty for siphoning here where another cell has all of this and more."""
    board = position.board
    unsiphoned = ~board.siphoned
    data = holds_data(board.content) & unsiphoned
    program = holds_program(board.content) & unsiphoned
    bit = program_bit(board)
    new_program = program & ((position.programs & bit) == 0)
    loose = unsiphoned & ~holds_data(board.content) & ~holds_program(board.content)
    no_block = ~board.blocks.to_array()

    # A cross has at most five blocks: the multiset of points is nine counts of three bits.
    count = jnp.uint32(1) << (3 * (board.value.astype(jnp.uint32) - 1))

    def over_cross(values: Array, where: Bool[Array, "36"]) -> Array:
        return _crosses(jnp.where(where, values, jnp.zeros_like(values)))

    points = jnp.sum(over_cross(count, data), axis=0)
    programs = over_cross(bit, new_program)
    programs = programs[0] | programs[1] | programs[2] | programs[3] | programs[4]
    credits_ = jnp.sum(over_cross(board.credits, loose), axis=0, dtype=jnp.int32)
    energy = jnp.sum(over_cross(board.energy, loose), axis=0, dtype=jnp.int32)
    points, programs, credits_, energy = (
        jnp.where(no_block, x, jnp.zeros_like(x)) for x in (points, programs, credits_, energy)
    )

    here = jnp.arange(NUM_CELLS, dtype=jnp.int32) == position.player.cell
    own_points, own_programs, own_credits, own_energy = (
        pick(here, x) for x in (points, programs, credits_, energy)
    )

    # With blocks at stake, only cells that reach all of this cross's unsiphoned blocks count.
    at_stake = (own_points != 0) | (own_programs != 0)
    center = CellSet.of(position.player.cell)
    cross = (center | center.neighbours()).to_array()
    at_hand = (data | program) & cross
    reached = jnp.sum(_crosses(at_hand), axis=0, dtype=jnp.int32)
    better = (
        no_block
        & (points == own_points)
        & (programs == own_programs)
        & (credits_ >= own_credits)
        & (energy >= own_energy)
        & ((credits_ > own_credits) | (energy > own_energy))
        & (~at_stake | (reached == jnp.sum(at_hand, dtype=jnp.int32)))
    )
    missed = pick(better, credits_) - own_credits + pick(better, energy) - own_energy
    return jnp.where(better.any(), -0.5 * 0.05 * missed.astype(jnp.float32), jnp.float32(0))


def _crosses(values: Shaped[Array, "36"]) -> Shaped[Array, "5 36"]:
    """The values of each cell's cross: its own and its neighbours' (0 off the board)."""
    grid = jnp.pad(values.reshape(SIZE, SIZE), 1)
    middle = slice(1, SIZE + 1)
    cross = [
        grid[middle, middle],
        grid[2:, middle],
        grid[:SIZE, middle],
        grid[middle, :SIZE],
        grid[middle, 2:],
    ]
    return jnp.stack(cross).reshape(len(cross), NUM_CELLS)


def program_bit(board: Board) -> UInt32[Array, "36"]:
    """The bit that stands for a cell's program; meaningless where there is none."""
    return jnp.uint32(1) << board.value.astype(jnp.uint32)
