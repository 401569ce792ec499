"""Siphoning (rules, section 4, and `siphon_quality` of section 9), and what it yields.

The yields are computed from planes of 36 cells, which a position and an observation of it have.
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
"""Turns by which a siphon delays the next scheduled task."""


def siphon(position: Position) -> Position:
    """The effect of the action siphon."""
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
"""Bits of a count: a cross has at most five blocks."""
_AT_STAKE = fields(credits=4, energy=4, blocks=_COUNT, rich=_COUNT * (GIVEN_POINTS - MAX_POINTS))
"""Sums over a cross, in one word: at most 15 credits and 15 energy, its blocks, and how many have
each number of points beyond `MAX_POINTS`."""


def siphon_quality(position: Position) -> Float32[Array, ""]:
    """The penalty for siphoning here although another cell gives all of this and more."""
    board = position.board
    unsiphoned = ~board.siphoned
    data = holds_data(board.content) & unsiphoned
    program = holds_program(board.content) & unsiphoned
    bit = program_bit(board)
    new_program = program & ((position.programs & bit) == 0)
    no_block = ~board.blocks.to_array()
    loose = unsiphoned & no_block
    center = CellSet.from_cell(position.player.cell)
    at_hand = (data | program) & (center | center.neighbours()).to_array()

    # The multiset of points is a count of each number. Those up to `MAX_POINTS` fill a word; the
    # others, which only a given position has, are in the word of the stake.
    rich = data & (board.value > MAX_POINTS)
    kind = jnp.where(rich, board.value - MAX_POINTS - 1, board.value)
    count = jnp.uint32(1) << (_COUNT * kind.astype(jnp.uint32))
    stake = (
        _AT_STAKE["credits"].placed(jnp.where(loose, board.credits, 0))
        | _AT_STAKE["energy"].placed(jnp.where(loose, board.energy, 0))
        | _AT_STAKE["blocks"].placed(at_hand)
        | _AT_STAKE["rich"].placed(jnp.where(rich, count, 0))
    )
    none = jnp.uint32(0)
    points = jnp.sum(crosses(jnp.where(data & ~rich, count, none)), axis=0, dtype=jnp.uint32)
    programs = functools.reduce(operator.or_, crosses(jnp.where(new_program, bit, none)))
    stake = jnp.sum(crosses(stake), axis=0, dtype=jnp.uint32)
    points, programs, stake = (jnp.where(no_block, x, none) for x in (points, programs, stake))

    here = np.arange(NUM_CELLS) == position.player.cell
    own_points, own_programs, own_stake = (pick(here, x) for x in (points, programs, stake))
    credits_, energy, blocks, riches = (field.read(stake) for field in _AT_STAKE.values())
    own_credits, own_energy, own_blocks, own_riches = (
        field.read(own_stake) for field in _AT_STAKE.values()
    )
    # If this cross reaches unsiphoned blocks, only cells that reach the same blocks count.
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
    """The values of each cell's cross: its own and its four neighbours' (0 off the board)."""
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

    points: Int32[Array, "36"]  #: Of data blocks.
    programs: UInt32[Array, "36"]  #: The programs of program blocks, one bit each, owned ones too.
    credits: Int32[Array, "36"]  #: Credits of cells without a block.
    energy: Int32[Array, "36"]  #: Energy of cells without a block.
    spawns: Int32[Array, "36"]  #: Transmissions that the known blocks call.
    questions: Int32[Array, "36"]  #: Question blocks; what they hold is in no other number.


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
    """The yield of each cell to a siphon that reaches it, by the planes of a board.

    The planes of a `CompactObservation` have the same names; its `siphoned` is set only on
    blocks, which gives the same result: a siphoned cell without a block holds no resource.
    `data` and `program` are known blocks, `question` are those that are not revealed yet.
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
    """`cell_yields` of a board, as the player sees it."""
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
"""The sums over a cross, in one word."""


def siphon_yields(cells: Yields) -> Yields:
    """The yield of a siphon at each cell: a sum over its cross, a union of the programs."""
    packed = [field.placed(getattr(cells, name)) for name, field in _SUMS.items()]
    sums = jnp.sum(crosses(functools.reduce(operator.or_, packed)), axis=0, dtype=jnp.uint32)
    return Yields(
        programs=lax.reduce(crosses(cells.programs), np.uint32(0), lax.bitwise_or, (0,)),
        **{name: field.read(sums) for name, field in _SUMS.items()},
    )
