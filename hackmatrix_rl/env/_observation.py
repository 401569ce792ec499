"""The compact observation: what the player sees (rules, section 10), as small integers.

The rollout stores this form. `_encoding.py` computes the input of a network from it.
"""

from enum import IntEnum

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix import (
    NUM_CELLS,
    Board,
    CellSet,
    Content,
    Enemies,
    EnemyType,
    Position,
    Slots,
    Transmissions,
    col_of,
    is_block,
    row_and_column,
    row_of,
)
from hackmatrix_rl.system.batching import fields, is_dense, masked, sparse_cond


class Number(IntEnum):
    """Indices of `CompactObservation.numbers`."""

    ROW = 0
    COL = 1
    HP = 2
    CREDITS = 3
    ENERGY = 4
    STAGE = 5
    DATA_SIPHONS = 6
    ATTACK_DAMAGE = 7
    SHOW_ACTIVATED = 8
    SCHEDULED_TASKS_DISABLED = 9
    SCORE = 10
    TURN = 11


class Sight(IntEnum):
    """The visible content of a cell."""

    EMPTY = 0
    DATA = 1
    PROGRAM = 2
    QUESTION = 3
    PICKUP = 4
    EXIT = 5


CELL = fields(
    **{name: field.width for name, field in Board.FIELDS.items()},
    enemy=3,
    enemy_hp=2,
    enemy_stunned=1,
    enemy_from_siphon=1,
    transmission=3,
    transmission_type=3,
    last_known=1,
)
"""The fields of the word of a cell. 0 means "none" in each field.

    content: a `Sight`.
    value: points of a data block, or the `Program` of a program block.
    siphoned: whether a block was siphoned; 0 for other cells.
    enemy: 1 + type of the visible enemy. `enemy_hp` and the two `enemy_` flags are its, too.
    transmission: `turns_remaining` of the visible transmission, at most 7.
    transmission_type: 1 + type of the visible transmission while SHOW is active, else 0.
    last_known: whether a hidden cryptog was last seen here.

The fields of `Board` come first, at the same bits.
"""


class CompactObservation(eqx.Module):
    """Everything that the screen of the original game shows, as integers."""

    numbers: Int32[Array, "*batch numbers"]  #: Unscaled, indexed by `Number`.
    programs: UInt32[Array, "*batch"]  #: The bit set of owned programs.
    grid: UInt32[Array, "*batch 36"]  #: A word per cell (see `CELL`); cell = row * 6 + col.

    def plane(self, name: str) -> Int32[Array, "*batch 36"]:
        """One field of `CELL` for every cell."""
        return CELL[name].read(self.grid)


def compact_observation(position: Position, *, is_rare: bool = False) -> CompactObservation:
    """The compact observation of one position.

    `is_rare` is whether only a few games of a batch need it. The result is the same: `True`
    compiles faster, because it always reads all slots; `False` runs faster.
    """
    player, board = position.player, position.board
    numbers = {
        Number.ROW: row_of(player.cell),
        Number.COL: col_of(player.cell),
        Number.HP: player.hp,
        Number.CREDITS: player.credits,
        Number.ENERGY: player.energy,
        Number.STAGE: position.stage,
        Number.DATA_SIPHONS: player.data_siphons,
        Number.ATTACK_DAMAGE: player.attack_damage,
        Number.SHOW_ACTIVATED: position.show_activated.astype(jnp.int32),
        Number.SCHEDULED_TASKS_DISABLED: position.scheduled_tasks_disabled.astype(jnp.int32),
        Number.SCORE: player.score,
        Number.TURN: position.turn,
    }
    return CompactObservation(
        numbers=jnp.stack([numbers[number] for number in Number]),
        programs=position.programs,
        grid=_board(board) | _things(position, is_rare=is_rare),
    )


def _board(board: Board) -> UInt32[Array, "36"]:
    """The words of the cells without enemies and transmissions."""
    content = board.content
    block = is_block(content)
    hidden = (content == Content.HIDDEN_DATA) | (content == Content.HIDDEN_PROGRAM)
    sight = jnp.where(content >= Content.HIDDEN_PROGRAM, content - 1, content)
    covered = block & ~board.siphoned
    seen = board.replace(content=sight)
    seen = seen.replace(hidden, value=0, spawn_count=0)
    seen = seen.replace(covered, credits=0, energy=0)
    return seen.replace(~block, value=0, siphoned=0).words


Things = tuple[Enemies, Transmissions, Int32[Array, ""], Bool[Array, ""]]

_FEW = 6
"""Number of slots read in every game. Most games never use more."""


def _things(position: Position, *, is_rare: bool) -> UInt32[Array, "36"]:
    """The fields of the visible enemies and transmissions."""
    enemies, transmissions = position.enemies, position.transmissions
    given = (enemies, transmissions, position.player.cell, position.show_activated)

    def look(some: int | None, given: Things) -> UInt32[Array, "36"]:
        enemies, transmissions, player_cell, show = given
        return _enemies(Enemies(enemies.words[:some]), player_cell, show) | _transmissions(
            Transmissions(transmissions.words[:some]), show
        )

    if is_rare or is_dense():
        return look(None, given)
    crowded = enemies.present[_FEW:].any() | transmissions.present[_FEW:].any()
    return sparse_cond(
        crowded, lambda _, given: look(None, given), look(_FEW, given), given, share=8
    )


def _enemies(
    enemies: Enemies, player_cell: Int32[Array, ""], show: Bool[Array, ""]
) -> UInt32[Array, "36"]:
    """The fields of the visible enemies, and the last-known cells of hidden cryptogs."""
    row, column = row_and_column(player_cell)
    in_sight = row | column
    first = Enemies(_first_by_cell(enemies))
    hidden = first.present & (first.type == EnemyType.CRYPTOG) & ~(in_sight.to_array() | show)
    look = (
        CELL["enemy"].placed(first.type + 1)
        | CELL["enemy_hp"].placed(first.hp)
        | CELL["enemy_stunned"].placed(first.stunned)
        | CELL["enemy_from_siphon"].placed(first.spawned_from_siphon)
    )
    hints = CellSet.from_cells(first.last_known, hidden)
    shown = jnp.where(first.present & ~hidden, look, jnp.uint32(0))
    return shown | CELL["last_known"].placed(hints.to_array())


def _transmissions(transmissions: Transmissions, show: Bool[Array, ""]) -> UInt32[Array, "36"]:
    """The fields of the visible transmissions."""
    turns = jnp.minimum(transmissions.turns_remaining, CELL["transmission"].largest)
    first = Transmissions(_first_by_cell(transmissions.replace(turns_remaining=turns)))
    kind = jnp.where(show, first.type + 1, 0)
    look = CELL["transmission"].placed(first.turns_remaining)
    look = look | CELL["transmission_type"].placed(kind)
    return jnp.where(first.present, look, jnp.uint32(0))


_RECORD = 24
"""Bits of the word of an enemy, or of a transmission with `turns_remaining` of at most 7."""


def _first_by_cell(slots: Slots) -> UInt32[Array, "36"]:
    """The word of the first present slot of each cell; 0 for a cell without one."""
    cells = np.arange(NUM_CELLS, dtype=np.int32)
    words = jnp.where(slots.present, slots.words, jnp.uint32(0))
    if slots.size <= _FEW and not is_dense():
        # A loop over a few slots is faster: their axis is too short for vector instructions.
        cell = jnp.where(slots.present, slots.cell, -1)
        found = jnp.zeros(NUM_CELLS, jnp.uint32)
        for slot in reversed(range(slots.size)):  # the first one writes last
            found = jnp.where(cells == cell[slot], words[slot], found)
        return found
    # The first slot has the largest number, in the bits above its word.
    numbers = np.arange(slots.size, 0, -1, dtype=np.uint32) << _RECORD
    words = jnp.where(slots.present, words | numbers, jnp.uint32(0))
    here = cells[:, None] == slots.cell[None, :]
    found = jnp.max(jnp.where(here, words[None, :], jnp.uint32(0)), axis=1)
    return masked(found, (1 << _RECORD) - 1)
