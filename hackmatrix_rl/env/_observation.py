"""What the player sees (rules, section 10).

`CompactObservation` holds it as small integers. The rollout stores this form. `env/_encoding.py`
computes a network's input from it.
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
"""The fields of the word of a cell: what the player sees there. 0 means "none" in each field.

    content: a `Sight`.
    value: points of a data block, or the number of the program of a program block.
    siphoned: whether a block was siphoned; 0 for other cells.
    enemy: 1 + the type of the visible enemy; `enemy_hp` and the two flags belong to it.
    transmission: `turns_remaining` of the visible transmission, 7 for 7 or more.
    transmission_type: 1 + the type of the transmission while SHOW is active.
    last_known: a hidden cryptog was last seen here.

The words of `Board` have the same fields at the same bits.
"""


class CompactObservation(eqx.Module):
    """Everything that the screen of the original game shows, as integers."""

    numbers: Int32[Array, "*batch numbers"]  #: One unscaled number for each `Number`.
    programs: UInt32[Array, "*batch"]  #: The owned programs, one bit for each.
    grid: UInt32[Array, "*batch 36"]  #: One word for each cell, see `CELL`; cell = row * 6 + col.

    def plane(self, name: str) -> Int32[Array, "*batch 36"]:
        """One field of `CELL`, for every cell."""
        return CELL[name].read(self.grid)


def compact_observation(position: Position, *, is_rare: bool = False) -> CompactObservation:
    """The compact observation of one position.

    `is_rare` says whether only a few games of a batch need it. Both values give the same
    observation by different programs: `True` reads all slots at once and compiles faster, `False`
    runs faster.
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
"""Number of slots that are read in every game. Most games never fill more."""


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
    """The fields of the visible enemies, and of the last-known cells of hidden cryptogs."""
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
    """The fields of the transmissions; with their types while SHOW is active."""
    turns = jnp.minimum(transmissions.turns_remaining, CELL["transmission"].largest)
    first = Transmissions(_first_by_cell(transmissions.replace(turns_remaining=turns)))
    kind = jnp.where(show, first.type + 1, 0)
    look = CELL["transmission"].placed(first.turns_remaining)
    look = look | CELL["transmission_type"].placed(kind)
    return jnp.where(first.present, look, jnp.uint32(0))


_RECORD = 24
"""The bits that the word of an enemy, or of a transmission that is soon due, takes at most."""


def _first_by_cell(slots: Slots) -> UInt32[Array, "36"]:
    """The word of the first present slot of each cell; 0 for a cell without one."""
    cells = np.arange(NUM_CELLS, dtype=np.int32)
    words = jnp.where(slots.present, slots.words, jnp.uint32(0))
    if slots.size <= _FEW and not is_dense():
        # A few slots are faster one by one: their axis is too short for vector instructions.
        cell = jnp.where(slots.present, slots.cell, -1)
        found = jnp.zeros(NUM_CELLS, jnp.uint32)
        for slot in reversed(range(slots.size)):  # the first one writes last
            found = jnp.where(cells == cell[slot], words[slot], found)
        return found
    # The first slot has the largest number above its word.
    numbers = np.arange(slots.size, 0, -1, dtype=np.uint32) << _RECORD
    words = jnp.where(slots.present, words | numbers, jnp.uint32(0))
    here = cells[:, None] == slots.cell[None, :]
    found = jnp.max(jnp.where(here, words[None, :], jnp.uint32(0)), axis=1)
    return masked(found, (1 << _RECORD) - 1)
