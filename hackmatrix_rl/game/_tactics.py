"""Tactical quantities: distances, and the yield of a siphon at each cell.

Everything here is computed from planes of 36 cells, so that a position and an observation of it
can both be read.
"""

import functools
import operator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.batching import fields
from hackmatrix_rl.game._board import CellSet
from hackmatrix_rl.game._siphon import crosses
from hackmatrix_rl.game._state import Board, Content, is_block

_DIGITS = 6
UNREACHED = (1 << _DIGITS) - 1
"""The distance of a cell to which no path leads; longer than any path."""

_WAVES = 3
"""Steps of a search between two checks of whether it is over."""


def distances(
    start: CellSet, free: CellSet, *, barrier: CellSet | None = None
) -> Int32[Array, "36"]:
    """Steps of a shortest orthogonal path from `start` to each cell.

    The cells that are reached by the same step are added to the binary digits of their distance,
    which are sets of cells: a step costs a few words, not 36 numbers.

    Args:
        start: the cells with distance 0; they need not be free.
        free: the cells that a path may use.
        barrier: cells of `free` at which a path must end; none by default.

    Returns:
        The distances; `UNREACHED` where no path leads.
    """
    Digits = tuple[CellSet, ...]
    Carry = tuple[CellSet, CellSet, Int32[Array, ""], Digits]

    def spread(carry: Carry) -> Carry:
        reached, wave, steps, digits = carry
        for _ in range(_WAVES):
            source = wave if barrier is None else wave - barrier
            wave = (source.neighbours() & free) - reached
            reached = reached | wave
            steps = steps + 1
            digits = tuple(
                digit | wave.where(((steps >> place) & 1) != 0)
                for place, digit in enumerate(digits)
            )
        return reached, wave, steps, digits

    # The first wave starts on its barrier too.
    first = (start.neighbours() & free) - start
    digits = (first, *(CellSet.empty(),) * (_DIGITS - 1))
    reached, _, _, digits = lax.while_loop(
        lambda carry: carry[1].any(), spread, (start | first, first, jnp.int32(1), digits)
    )
    return functools.reduce(
        operator.or_,
        (
            (digit | ~reached).to_array().astype(jnp.int32) << place
            for place, digit in enumerate(digits)
        ),
    )


class Yields(eqx.Module):
    """The yield of a siphon, for each cell.

    Attributes:
        points: of data blocks.
        programs: the programs of program blocks, one bit each, owned ones too.
        credits: credits of cells without a block.
        energy: energy of cells without a block.
        spawns: transmissions that the known blocks call.
        questions: question blocks; what they hold is in no other number.
    """

    points: Int32[Array, "36"]
    programs: UInt32[Array, "36"]
    credits: Int32[Array, "36"]
    energy: Int32[Array, "36"]
    spawns: Int32[Array, "36"]
    questions: Int32[Array, "36"]


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

    Args:
        data: the known data blocks.
        program: the known program blocks.
        question: the question blocks that are not revealed yet.
        siphoned: the cells that give nothing any more.
        value: points of a data block, number of the program of a program block.
        spawn_count: transmissions that a block calls.
        credits: of each cell.
        energy: of each cell.
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
    """The yield of a siphon at each cell: a sum over its cross, a union of the programs.

    Args:
        cells: what each cell gives alone, from `cell_yields`.
    """
    packed = [field.placed(getattr(cells, name)) for name, field in _SUMS.items()]
    sums = jnp.sum(crosses(functools.reduce(operator.or_, packed)), axis=0, dtype=jnp.uint32)
    return Yields(
        programs=lax.reduce(crosses(cells.programs), np.uint32(0), lax.bitwise_or, (0,)),
        **{name: field.read(sums) for name, field in _SUMS.items()},
    )
