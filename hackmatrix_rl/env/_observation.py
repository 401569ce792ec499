"""What the player sees (rules, section 10).

`CompactObservation` holds it as small integers: that is what is stored and moved about. What a
network is fed is derived from it (`env/encoding.py`).
"""

from enum import IntEnum

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.batching import (
    fields,
    sparse_cond,
)
from hackmatrix_rl.game import (
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


class Number(IntEnum):
    """Entries of `CompactObservation.numbers`."""

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
    """What a cell is seen to hold."""

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
"""What is seen of a cell, in one word; 0 means "none" in each.

    content: a `Sight`.
    value: points of a data block, number of the program of a program block.
    siphoned: of blocks alone.
    enemy: 1 + the type of the enemy shown; then its hp and flags.
    transmission: turns_remaining of the transmission shown, 7 for more.
    transmission_type: 1 + its type, while SHOW is active.
    last_known: a hidden cryptog was last seen here.

`Board` has its fields at the same places.
"""


class CompactObservation(eqx.Module):
    """Everything a person at the original's screen sees, as integers.

    Attributes:
        numbers: one entry a `Number`, unscaled.
        programs: the programs that are owned, a bit each.
        grid: a word a cell, see `CELL`; cell = row * 6 + col.
    """

    numbers: Int32[Array, "*batch numbers"]
    programs: UInt32[Array, "*batch"]
    grid: UInt32[Array, "*batch 36"]

    def plane(self, name: str) -> Int32[Array, "*batch 36"]:
        """One of the fields of `CELL`, for every cell."""
        return CELL[name].read(self.grid)


def compact_observation(position: Position, *, is_rare: bool = False) -> CompactObservation:
    """What is seen of one position, as integers.

    Args:
        position: what is looked at.
        is_rare: whether only a few games of a batch are looked at. This is another program for
            the same observation: it looks at all slots at once, and is shorter to compile.
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
    """What the cells are seen to hold, beside enemies and transmissions."""
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
"""Slots that are looked at in every game; most games never have more."""


def _things(position: Position, *, is_rare: bool) -> UInt32[Array, "36"]:
    """The enemies and transmissions that are seen."""
    given = (
        position.enemies,
        position.transmissions,
        position.player.cell,
        position.show_activated,
    )

    def look(some: int | None, given: Things) -> UInt32[Array, "36"]:
        enemies, transmissions, player_cell, show = given
        return _enemies(Enemies(enemies.words[:some]), player_cell, show) | _transmissions(
            Transmissions(transmissions.words[:some]), show
        )

    if is_rare:
        return look(None, given)
    crowded = position.enemies.present[_FEW:].any() | position.transmissions.present[_FEW:].any()
    return sparse_cond(
        crowded, lambda _, given: look(None, given), look(_FEW, given), given, share=8
    )


def _enemies(
    enemies: Enemies, player_cell: Int32[Array, ""], show: Bool[Array, ""]
) -> UInt32[Array, "36"]:
    """The enemies shown, and where hidden cryptogs were last seen."""
    row, column = row_and_column(player_cell)
    in_sight = (row | column).has(enemies.cell) | show
    hidden = (enemies.type == EnemyType.CRYPTOG) & ~in_sight
    look = (
        CELL["enemy"].placed(enemies.type + 1)
        | CELL["enemy_hp"].placed(enemies.hp)
        | CELL["enemy_stunned"].placed(enemies.stunned)
        | CELL["enemy_from_siphon"].placed(enemies.spawned_from_siphon)
    )
    shown = _first_by_cell(enemies, jnp.where(hidden, jnp.uint32(0), look))

    hints = CellSet.of_cells(enemies.last_known, _leads(enemies) & hidden)
    return shown | CELL["last_known"].placed(hints.to_array())


def _transmissions(transmissions: Transmissions, show: Bool[Array, ""]) -> UInt32[Array, "36"]:
    """The transmissions shown; under SHOW with their types."""
    turns = jnp.minimum(transmissions.turns_remaining, CELL["transmission"].largest)
    kind = jnp.where(show, transmissions.type + 1, 0)
    look = CELL["transmission"].placed(turns) | CELL["transmission_type"].placed(kind)
    return _first_by_cell(transmissions, look)


def _first_by_cell(slots: Slots, look: UInt32[Array, " n"]) -> UInt32[Array, "36"]:
    """For each cell the look of the first thing on it; 0 where there is none."""
    cells = np.arange(NUM_CELLS, dtype=np.int32)
    if slots.size > _FEW:
        here = (cells[:, None] == slots.cell[None, :]) & _leads(slots)[None, :]
        return jnp.max(jnp.where(here, look[None, :], jnp.uint32(0)), axis=1)
    # Of a few, one by one takes less time: as an axis they are too short for vectors.
    cell = jnp.where(slots.present, slots.cell, -1)
    shown = jnp.zeros(NUM_CELLS, jnp.uint32)
    for slot in reversed(range(slots.size)):  # the first one writes last
        shown = jnp.where(cells == cell[slot], look[slot], shown)
    return shown


def _leads(slots: Slots) -> Bool[Array, " n"]:
    """The things that are the first on their cells."""
    number = np.arange(slots.size)
    earlier = (number[None, :] < number[:, None]) & slots.present[None, :]
    behind = ((slots.cell[None, :] == slots.cell[:, None]) & earlier).any(axis=1)
    return slots.present & ~behind
