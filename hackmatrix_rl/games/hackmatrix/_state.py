"""A game as arrays (rules, section 1)."""

from enum import IntEnum

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._board import CellSet
from hackmatrix_rl.system.batching import Flag, Number, Packed, bits_of, fields

LAST_STAGE = 8
MAX_HP = 3
MAX_POINTS = 9
"""The most points of a data block of a new stage."""
GIVEN_POINTS = 15
"""The most points of a data block in a position from outside (`from_arrays`).

A data block starts with as many spawns as points, and `Board.spawn_count` has 4 bits.
"""


class Content(IntEnum):
    """The content of a cell."""

    EMPTY = 0
    DATA = 1
    PROGRAM = 2
    HIDDEN_DATA = 3
    HIDDEN_PROGRAM = 4
    PICKUP = 5
    EXIT = 6


class EnemyType(IntEnum):
    """The four kinds of enemies."""

    VIRUS = 0
    DAEMON = 1
    GLITCH = 2
    CRYPTOG = 3


class Program(IntEnum):
    """The programs, in the order of their actions and of their bits."""

    PUSH = 0
    PULL = 1
    CRASH = 2
    WARP = 3
    POLY = 4
    WAIT = 5
    DEBUG = 6
    ROW = 7
    COL = 8
    UNDO = 9
    STEP = 10
    SIPH_PLUS = 11
    EXCH = 12
    SHOW = 13
    RESET = 14
    CALM = 15
    D_BOM = 16
    DELAY = 17
    ANTI_V = 18
    SCORE = 19
    REDUC = 20
    ATK_PLUS = 21
    HACK = 22


NUM_PROGRAMS = len(Program)
ALL_PROGRAMS = (1 << NUM_PROGRAMS) - 1
"""The bit set of all programs."""

NUM_ENEMY_TYPES = len(EnemyType)
ENEMY_HP = (2, 3, 2, 2)
"""Maximum hp by type."""
ENEMY_SPEED = (2, 1, 1, 1)
"""Cells per turn by type."""


class Player(eqx.Module):
    """The player. `hp` is 0..3; the other numbers have no upper bound."""

    cell: Int32[Array, ""]
    hp: Int32[Array, ""]
    credits: Int32[Array, ""]
    energy: Int32[Array, ""]
    data_siphons: Int32[Array, ""]
    score: Int32[Array, ""]
    attack_damage: Int32[Array, ""]

    @property
    def resources(self) -> Int32[Array, ""]:
        """Credits and energy."""
        return self.credits + self.energy


class Board(Packed):
    """The contents of the 36 cells, one word each; cell = row * 6 + col.

    A data block with 4 points is the word `Content.DATA | 4 << 3 | 4 << 8`.
    """

    FIELDS = fields(
        content=3,
        value=max(GIVEN_POINTS, NUM_PROGRAMS - 1).bit_length(),
        spawn_count=4,
        credits=2,
        energy=2,
        siphoned=1,
        siphon_center=1,
    )

    content = Number()  #: A `Content`.
    #: The points of a data block, the `Program` of a program block, else 0. Points are in
    #: 1..`MAX_POINTS`, except in a position from outside: there they are in 0..`GIVEN_POINTS`.
    value = Number()
    #: Number of transmissions that siphoning the block spawns; 0 without a block. It exceeds 9 only
    #: in a position from outside.
    spawn_count = Number()
    credits = Number()  #: 0..3; a cell with credits has no energy.
    energy = Number()  #: 0..3.
    siphoned = Flag()  #: Whether a siphon has reached the cell.
    siphon_center = Flag()  #: Whether the player has siphoned from this cell.

    @property
    def blocks(self) -> CellSet:
        """The cells with a block, hidden or not."""
        return CellSet.from_array(is_block(self.content))


class Slots(Packed):
    """Enemies or transmissions in order of arrival; there may be empty slots between them.

    The other fields of an empty slot are undefined.
    """

    present = Flag()  #: Whether the slot is taken.
    type = Number()  #: An `EnemyType`.
    cell = Number()  #: The cell it is on.
    #: Whether a scheduled task spawned it. Its kill then does not count.
    from_scheduled_task = Flag()
    spawned_from_siphon = Flag()  #: Whether a siphon spawned it.

    @property
    def size(self) -> int:
        """Number of slots, taken or empty."""
        return int(self.words.shape[-1])

    @property
    def cells(self) -> CellSet:
        """The occupied cells."""
        return CellSet.from_cells(self.cell, self.present)

    @property
    def count(self) -> Int32[Array, ""]:
        """Number of taken slots."""
        return jnp.sum(self.present, dtype=jnp.int32)


ORIGIN = ("from_scheduled_task", "spawned_from_siphon")
"""The flags for what spawned a transmission or an enemy."""

NOWHERE = 63
"""The value of a cell field that names no cell."""


class Enemies(Slots):
    """Enemies in order of arrival."""

    FIELDS = fields(
        type=2, cell=6, hp=2, disabled_turns=3, stunned=1, last_known=6,
        from_scheduled_task=1, spawned_from_siphon=1, present=1,
    )  # fmt: skip

    hp = Number()  #: 1..3.
    disabled_turns = Number()  #: Enemy turns until it may move; 0..7.
    stunned = Flag()  #: Whether it skips the next enemy turn.
    #: Cell where a cryptog was last seen; `NOWHERE` if the enemy has never been a cryptog.
    last_known = Number()


class Transmissions(Slots):
    """Enemies that have not appeared yet, in order of arrival."""

    FIELDS = fields(
        type=2, cell=6, from_scheduled_task=1, spawned_from_siphon=1, present=1, turns_remaining=21
    )

    #: Enemy turns until the enemy appears; with 1 it appears in the next one. At most
    #: `LONGEST_WAIT`.
    turns_remaining = Number()


LONGEST_WAIT = Transmissions.FIELDS["turns_remaining"].largest
"""The largest `turns_remaining`. It takes about 700,000 uses of DELAY to reach it."""


class Position(eqx.Module):
    """The current state of a game, without its history."""

    player: Player
    board: Board
    enemies: Enemies
    transmissions: Transmissions
    programs: UInt32[Array, ""]  #: The bit set of owned programs; see `owned`.
    stage: Int32[Array, ""]  #: 1 to 8.
    turn: Int32[Array, ""]  #: Enemy turns in this stage.
    exit_cell: Int32[Array, ""]
    show_activated: Bool[Array, ""]  #: Whether SHOW is active.
    scheduled_tasks_disabled: Bool[Array, ""]  #: Whether CALM is active.
    step_active: Bool[Array, ""]  #: Whether STEP skips the next enemy turn.
    atk_plus_uses_this_stage: Int32[Array, ""]
    scheduled_task_interval: Int32[Array, ""]  #: Turns between scheduled tasks.
    next_scheduled_task_turn: Int32[Array, ""]  #: The turn of the next scheduled task.
    #: Transmissions that siphons have requested and the next enemy turn spawns.
    pending_siphon_transmissions: Int32[Array, ""]
    #: Spawns dropped for lack of a free slot (see `GameConfig`), over the whole game.
    dropped: Int32[Array, ""]

    @property
    def owned(self) -> Bool[Array, " num_programs"]:
        """Whether the player owns each program."""
        return bits_of(self.programs, NUM_PROGRAMS)


class History(eqx.Module):
    """Snapshots for UNDO in a ring buffer (`_history.py`)."""

    ring: UInt32[Array, "history snapshot_words"]  #: One snapshot per row.
    next_slot: Int32[Array, ""]  #: The row of the next snapshot.
    count: Int32[Array, ""]  #: Number of snapshots held.


class State(eqx.Module):
    """One game: the position and its history."""

    position: Position
    history: History


def is_block(content: Int32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether a cell's content is a block, hidden or not."""
    return (content >= Content.DATA) & (content <= Content.HIDDEN_PROGRAM)


def holds_data(content: Int32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether a cell's content is a data block, hidden or not."""
    return (content == Content.DATA) | (content == Content.HIDDEN_DATA)


def holds_program(content: Int32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether a cell's content is a program block, hidden or not."""
    return (content == Content.PROGRAM) | (content == Content.HIDDEN_PROGRAM)


def by_type(
    table: tuple[int, int, int, int], kind: Int32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """Looks up each type in a table, without a gather. Entries must be below 256."""
    # (2, 3, 2, 2) -> 0x02020302, one byte per type
    word = sum(entry << (8 * each) for each, entry in enumerate(table))
    return ((jnp.uint32(word) >> (8 * kind).astype(jnp.uint32)) & 255).astype(jnp.int32)
