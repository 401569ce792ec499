"""Resampling of hidden information.

A search in the real position would learn the contents of its question blocks. So a fair search
uses a position that looks the same, with hidden information sampled by the rules of the game.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix import (
    ALL_PROGRAMS,
    MAX_POINTS,
    NUM_CELLS,
    NUM_PROGRAMS,
    SPECS,
    Board,
    CellSet,
    Content,
    ContentStream,
    Enemies,
    EnemyType,
    Position,
    Program,
    distinct_programs,
    row_and_column,
)
from hackmatrix_rl.search._streams import UnseenStream
from hackmatrix_rl.system.batching import Chance, below, only_first, pick, union

_SPAWN_COSTS = np.array([SPECS[program].spawn_cost for program in Program], np.int32)


def draw_unseen(position: Position, *, chance: Chance) -> Position:
    """A position (not a batch) that looks the same, with hidden information resampled.

    - Question blocks: data or a program, as in a new stage (rules, section 3). A program that is
      visible on the board is not sampled. Spawn counts have the same reduction as those of visible
      blocks.
    - Types of transmissions, unless SHOW is active: each of the four is equally likely.
    - Hidden cryptogs: free cells out of sight, within two steps of where each was last seen if
      there are any. A cryptog that shares its cell stays.

    Visible information does not change, and the result does not depend on hidden information.
    """
    transmissions = position.transmissions
    words = chance.fold_in(UnseenStream.TRANSMISSIONS).words(transmissions.size)
    kinds = (words >> 30).astype(jnp.int32)
    unknown = transmissions.present & ~position.show_activated
    return replace(
        position,
        board=_questions(position.board, chance=chance.fold_in(UnseenStream.QUESTIONS)),
        transmissions=transmissions.replace(unknown, type=kinds),
        enemies=_cryptogs(position, chance=chance.fold_in(UnseenStream.CRYPTOGS)),
    )


def _questions(board: Board, *, chance: Chance) -> Board:
    """The board with resampled contents of its question blocks."""
    content = board.content
    hidden = (content == Content.HIDDEN_DATA) | (content == Content.HIDDEN_PROGRAM)
    program = hidden & (chance.words(NUM_CELLS) >> 31 == 1)
    points = 1 + below(chance.words(NUM_CELLS, first=NUM_CELLS), MAX_POINTS)

    seen_program, seen_data = content == Content.PROGRAM, content == Content.DATA
    bits = jnp.uint32(1) << board.value.astype(jnp.uint32)
    seen = union(jnp.where(seen_program, bits, jnp.uint32(0)))
    programs = distinct_programs(
        CellSet.from_array(program),
        chance=chance.fold_in(ContentStream.PROGRAMS),
        unused=~seen & ALL_PROGRAMS,
    )
    costs = jnp.asarray(_SPAWN_COSTS)[jnp.minimum(board.value, NUM_PROGRAMS - 1)]
    costs = jnp.where(seen_program, costs, board.value)
    taken_off = jnp.where(
        (seen_program | seen_data) & ~board.siphoned, costs - board.spawn_count, 0
    )

    spawns = jnp.where(program, programs.spawn_count, points) - jnp.max(taken_off)
    return board.replace(
        hidden,
        content=jnp.where(program, Content.HIDDEN_PROGRAM, Content.HIDDEN_DATA),
        value=jnp.where(program, programs.value, points),
        spawn_count=jnp.maximum(spawns, 0),
    )


def _cryptogs(position: Position, *, chance: Chance) -> Enemies:
    """The enemies with resampled cells of the hidden cryptogs."""
    enemies, here = position.enemies, position.player.cell
    row, column = row_and_column(here)
    in_sight = row | column
    unseen = enemies.present & (enemies.type == EnemyType.CRYPTOG) & ~in_sight.has(enemies.cell)
    same = (enemies.cell[:, None] == enemies.cell[None, :]) & enemies.present[None, :]
    alone = jnp.sum(same, axis=1, dtype=jnp.int32) == 1
    moves = unseen & alone & ~position.show_activated
    stay = CellSet.from_cells(enemies.cell, enemies.present & ~moves)
    free = ~(in_sight | position.board.blocks | position.transmissions.cells | stay)

    Carry = tuple[Bool[Array, " n"], CellSet, UInt32[Array, " n"]]

    def one(carry: Carry) -> Carry:
        moves, free, words = carry
        now = only_first(moves)
        last = pick(now, enemies.last_known)
        near = free & CellSet.from_cell(last).surroundings().surroundings()
        near_some = near.any()
        choices = near.where(near_some) | free.where(~near_some)
        number: Int32[Array, ""] = jnp.sum(moves, dtype=jnp.int32)
        cell = choices.choose(chance.bits(number))
        now = now & choices.any()
        words = Enemies(words).replace(now, cell=cell).words
        return moves & ~only_first(moves), free - CellSet.from_cell(cell), words

    start = (moves, free, enemies.words)
    return Enemies(jax.lax.while_loop(lambda carry: carry[0].any(), one, start)[-1])
