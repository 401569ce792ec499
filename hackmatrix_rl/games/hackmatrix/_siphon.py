"""The siphon (rules, section 4), its yield, and `siphon_quality` (section 9).

Yields are computed from planes of 36 cells, so that they work on positions and on observations.
"""

import functools
import operator
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, Shaped, UInt32

from hackmatrix_rl.games.hackmatrix._board import NUM_CELLS, SIZE, CellSet
from hackmatrix_rl.games.hackmatrix._state import (
    GIVEN_POINTS,
    MAX_POINTS,
    Board,
    Content,
    Position,
    holds_data,
    holds_program,
    is_block,
)
from hackmatrix_rl.system.batching import fields, pick, union

SHORTEST_INTERVAL = 4
RESPITE = 5
"""Turns that a siphon adds to `next_scheduled_task_turn`."""


def siphon(position: Position) -> Position:
    board, player = position.board, position.player
    here = CellSet.from_cell(player.cell)
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


_COUNT = 3
"""Bits per count: a cross has at most five blocks."""
_SUMMED = fields(credits=4, energy=4, blocks=_COUNT, rich=_COUNT * (GIVEN_POINTS - MAX_POINTS))
"""Sums over a cross, in one word: at most 15 credits, at most 15 energy, the number of blocks, and
the counts of points above `MAX_POINTS`."""


def siphon_quality(position: Position) -> Float32[Array, ""]:
    """The penalty for a siphon whose yield another cell exceeds."""
    board = position.board
    unsiphoned = ~board.siphoned
    data = holds_data(board.content) & unsiphoned
    program = holds_program(board.content) & unsiphoned
    bit = program_bit(board)
    new_program = program & ((position.programs & bit) == 0)
    no_block = ~board.blocks.to_array()
    loose = unsiphoned & no_block
    center = CellSet.from_cell(position.player.cell)
    reached = (data | program) & (center | center.neighbours()).to_array()

    # A multiset of points is a word with a count of 3 bits per number of points:
    # {2, 2, 7} -> 2 << 6 | 1 << 21
    # Counts above `MAX_POINTS` do not fit; `_SUMMED.rich` holds them.
    rich = data & (board.value > MAX_POINTS)
    kind = jnp.where(rich, board.value - MAX_POINTS - 1, board.value)
    count = jnp.uint32(1) << (_COUNT * kind.astype(jnp.uint32))
    summed = (
        _SUMMED["credits"].placed(jnp.where(loose, board.credits, 0))
        | _SUMMED["energy"].placed(jnp.where(loose, board.energy, 0))
        | _SUMMED["blocks"].placed(reached)
        | _SUMMED["rich"].placed(jnp.where(rich, count, 0))
    )
    none = jnp.uint32(0)
    points = jnp.sum(crosses(jnp.where(data & ~rich, count, none)), axis=0, dtype=jnp.uint32)
    programs = functools.reduce(operator.or_, crosses(jnp.where(new_program, bit, none)))
    summed = jnp.sum(crosses(summed), axis=0, dtype=jnp.uint32)
    points, programs, summed = (jnp.where(no_block, x, none) for x in (points, programs, summed))

    here = np.arange(NUM_CELLS) == position.player.cell
    own_points, own_programs, own_summed = (pick(here, x) for x in (points, programs, summed))
    credits_, energy, blocks, riches = (field.read(summed) for field in _SUMMED.values())
    own_credits, own_energy, own_blocks, own_riches = (
        field.read(own_summed) for field in _SUMMED.values()
    )
    # If the player's yield has a block, only cells whose cross has the same blocks are candidates.
    nothing_here = (own_points == 0) & (own_riches == 0) & (own_programs == 0)
    better = (
        no_block
        & (points == own_points)
        & (riches == own_riches)
        & (programs == own_programs)
        & (credits_ >= own_credits)
        & (energy >= own_energy)
        & ((credits_ > own_credits) | (energy > own_energy))
        & (nothing_here | (blocks == own_blocks))
    )
    missed = pick(better, credits_) - own_credits + pick(better, energy) - own_energy
    return jnp.where(better.any(), -0.5 * 0.05 * missed.astype(jnp.float32), jnp.float32(0))


def crosses(values: Shaped[Array, "36"]) -> Shaped[Array, "5 36"]:
    """The values of each cell's cross: the cell, up, down, left, right; 0 off the board."""
    padded = jnp.pad(values, SIZE)
    column = np.arange(NUM_CELLS) % SIZE

    def adjacent(step: int) -> Shaped[Array, "36"]:
        return padded[SIZE + step : SIZE + step + NUM_CELLS]

    nothing = jnp.zeros_like(values)
    cross = [
        values,
        adjacent(SIZE),
        adjacent(-SIZE),
        jnp.where(column > 0, adjacent(-1), nothing),
        jnp.where(column < SIZE - 1, adjacent(1), nothing),
    ]
    return jnp.stack(cross)


def program_bit(board: Board) -> UInt32[Array, "36"]:
    """The bit of each cell's program; undefined if the cell has none."""
    return jnp.uint32(1) << board.value.astype(jnp.uint32)


class Yields(eqx.Module):
    """The yield of a siphon, for each cell."""

    points: Int32[Array, "36"]  #: Points of data blocks.
    programs: UInt32[Array, "36"]  #: The bit set of the programs of blocks, owned or not.
    credits: Int32[Array, "36"]  #: Credits of cells without a block.
    energy: Int32[Array, "36"]  #: Energy of cells without a block.
    spawns: Int32[Array, "36"]  #: Transmissions that data and program blocks spawn.
    questions: Int32[Array, "36"]  #: Number of question blocks. No other field counts these.


def cell_yields(
    *,
    data: Bool[Array, "36"],
    program: Bool[Array, "36"],
    question: Bool[Array, "36"],
    siphoned: Bool[Array, "36"],
    value: Int32[Array, "36"],
    spawn_count: Int32[Array, "36"],
    credits: Int32[Array, "36"],
    energy: Int32[Array, "36"],
) -> Yields:
    """What each cell alone yields to a siphon, from the planes of a board.

    `data`, `program` and `question` mark the blocks as the player sees them. A `CompactObservation`
    has the same planes. It sets `siphoned` only on blocks, with the same result: a siphoned cell
    without a block has no resource.
    """
    bit = jnp.uint32(1) << value.astype(jnp.uint32)
    loose = ~(data | program | question | siphoned)
    data, program, question = (each & ~siphoned for each in (data, program, question))
    return Yields(
        points=jnp.where(data, value, 0),
        programs=jnp.where(program, bit, jnp.uint32(0)),
        credits=jnp.where(loose, credits, 0),
        energy=jnp.where(loose, energy, 0),
        spawns=jnp.where(data | program, spawn_count, 0),
        questions=question.astype(jnp.int32),
    )


def yields_of(board: Board) -> Yields:
    """`cell_yields` of a board as the player sees it."""
    content = board.content
    return cell_yields(
        data=content == Content.DATA,
        program=content == Content.PROGRAM,
        question=is_block(content) & (content >= Content.HIDDEN_DATA),
        siphoned=board.siphoned,
        value=board.value,
        spawn_count=board.spawn_count,
        credits=board.credits,
        energy=board.energy,
    )


_SUMS = fields(points=7, credits=4, energy=4, spawns=7, questions=3)
"""Sums over a cross, in one word."""


def siphon_yields(cells: Yields) -> Yields:
    """The yield of a siphon at each cell: sums over its cross, and the union of its programs."""
    packed = [field.placed(getattr(cells, name)) for name, field in _SUMS.items()]
    sums = jnp.sum(crosses(functools.reduce(operator.or_, packed)), axis=0, dtype=jnp.uint32)
    return Yields(
        programs=lax.reduce(crosses(cells.programs), np.uint32(0), lax.bitwise_or, (0,)),
        **{name: field.read(sums) for name, field in _SUMS.items()},
    )
