"""What the player sees (rules, section 10).

`CompactObservation` holds it as small integers: that is what is stored and moved about.
`Observation` is the classic encoding, and is derived from it.
"""

from dataclasses import dataclass
from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.env.environment import Features
from hackmatrix_rl.game import GameConfig, State, sparse
from hackmatrix_rl.game.board import (
    NUM_CELLS,
    SIZE,
    CellSet,
    col_of,
    row_and_column,
    row_of,
)
from hackmatrix_rl.game.packed import BitField, fields
from hackmatrix_rl.game.state import (
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Board,
    Content,
    Enemies,
    EnemyType,
    Position,
    Slots,
    Transmissions,
    bits_of,
    is_block,
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
    content=3,
    value=5,
    spawn_count=4,
    credits=2,
    energy=2,
    siphoned=1,
    siphon_center=1,
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

The first seven stand where `Board` has them.
"""


class CompactObservation(eqx.Module):
    """Everything a person at the original's screen sees, as integers.

    Attributes:
        numbers: one entry a `Number`, unscaled.
        programs: the programs that are owned, a bit each.
        grid: a word a cell, see `CELL`; cell = row * 6 + col.
    """

    numbers: Int32[Array, "*batch 12"]
    programs: UInt32[Array, "*batch"]
    grid: UInt32[Array, "*batch 36"]

    def plane(self, name: str) -> Int32[Array, "*batch 36"]:
        """One of the fields of `CELL`, for every cell."""
        return CELL[name].read(self.grid)


class Observation(eqx.Module):
    """The classic encoding."""

    player: Float32[Array, "10"]
    programs: Float32[Array, "23"]
    grid: Float32[Array, "6 6 42"]


def observe(config: GameConfig, state: State) -> Observation:
    """The classic encoding of one game.

    Args:
        config: the game's capacities.
        state: one game; use `jax.vmap` for several.
    """
    return classic_from_compact(compact_observation(state.position))


def compact_observation(position: Position) -> CompactObservation:
    """What is seen of one position, as integers."""
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
        grid=_board(board) | _things(position),
    )


def _board(board: Board) -> UInt32[Array, "36"]:
    """What the cells are seen to hold, beside enemies and transmissions."""
    content = board.content
    block = is_block(content)
    hidden = (content == Content.HIDDEN_DATA) | (content == Content.HIDDEN_PROGRAM)
    sight = jnp.where(content >= Content.HIDDEN_PROGRAM, content - 1, content)
    covered = block & ~board.siphoned
    seen = board.with_(content=sight)
    seen = seen.with_(hidden, value=0, spawn_count=0)
    seen = seen.with_(covered, credits=0, energy=0)
    return seen.with_(~block, value=0, siphoned=0).words


Things = tuple[Enemies, Transmissions, Int32[Array, ""], Bool[Array, ""]]

_FEW = 6
"""Slots that are looked at in every game; most games never have more."""


def _things(position: Position) -> UInt32[Array, "36"]:
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

    crowded = position.enemies.present[_FEW:].any() | position.transmissions.present[_FEW:].any()
    return sparse.apply_if(
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


@dataclass(frozen=True)
class Channel:
    """How a channel of the encoding follows from the word of a cell.

    Attributes:
        field: of `CELL`; the channel is its number,
        scale: divided by this,
        cap: and not more than this;
        when: but 0 unless these fields have these numbers. Without a `field` it is 1 then.
    """

    field: str | None = None
    scale: float = 1.0
    cap: float = np.inf
    when: tuple[tuple[str, int], ...] = ()


def _one_hot(field: str, *numbers: int, **when: int) -> list[Channel]:
    return [Channel(when=((field, number), *when.items())) for number in numbers]


_TYPES = range(1, NUM_ENEMY_TYPES + 1)

CLASSIC_CHANNELS = (
    *_one_hot("enemy", *_TYPES),
    Channel("enemy_hp", scale=3),
    Channel("enemy_stunned"),
    Channel("enemy_from_siphon"),
    *_one_hot("content", Sight.DATA, Sight.PROGRAM, Sight.QUESTION),
    Channel("value", scale=9, when=(("content", Sight.DATA),)),
    Channel("siphoned"),
    *_one_hot("value", *range(NUM_PROGRAMS), content=Sight.PROGRAM),
    Channel("spawn_count", scale=9),
    Channel("transmission", scale=4, cap=1),
    Channel("credits", scale=3),
    Channel("energy", scale=3),
    *_one_hot("content", Sight.PICKUP, Sight.EXIT),
    Channel("siphon_center"),
)
"""The channels of the classic encoding, in its order."""

SCREEN_CHANNELS = (Channel("last_known"), *_one_hot("transmission_type", *_TYPES))
"""What the screen shows beside them."""


def encode_cells(
    grid: UInt32[Array, "cells"], channels: tuple[Channel, ...]
) -> Float32[Array, "cells channels"]:
    """Channels of the words of some cells."""
    # One expression for all channels: XLA makes one pass of it, where stacking the channels
    # one by one takes several times as long as the rest of a small network.
    table = [CELL[channel.field] if channel.field else BitField(0, 0) for channel in channels]
    need = [[(CELL[name], number) for name, number in channel.when] for channel in channels]

    def row(values: list[float], dtype: DTypeLike) -> np.ndarray:
        return np.array([values], dtype)

    mask = row([sum(field.mask for field, _ in each) for each in need], np.uint32)
    wanted = row([sum(n << field.shift for field, n in each) for each in need], np.uint32)
    shift = row([field.shift for field in table], np.uint32)
    largest = row([field.largest for field in table], np.uint32)
    one = row([0 if channel.field else 1 for channel in channels], np.float32)
    scale = row([channel.scale for channel in channels], np.float32)
    cap = row([channel.cap for channel in channels], np.float32)
    words = grid[:, None]
    number = ((words >> shift) & largest).astype(jnp.float32)
    value = jnp.minimum(number / scale, cap) + one
    return jnp.where((words & mask) == wanted, value, 0)


def _player(observation: CompactObservation) -> Float32[Array, "10"]:
    """The player's numbers of the classic encoding."""
    number = dict(zip(Number, observation.numbers.astype(jnp.float32), strict=True))
    player = [
        number[Number.ROW] / 5,
        number[Number.COL] / 5,
        number[Number.HP] / 3,
        jnp.minimum(number[Number.CREDITS] / 50, 1),
        jnp.minimum(number[Number.ENERGY] / 50, 1),
        (number[Number.STAGE] - 1) / 7,
        number[Number.DATA_SIPHONS] / 10,
        (number[Number.ATTACK_DAMAGE] - 1) / 2,
        number[Number.SHOW_ACTIVATED],
        number[Number.SCHEDULED_TASKS_DISABLED],
    ]
    return jnp.stack(player)


def classic_from_compact(observation: CompactObservation) -> Observation:
    """The classic encoding of one compact observation."""
    return Observation(
        player=_player(observation),
        programs=bits_of(observation.programs, NUM_PROGRAMS).astype(jnp.float32),
        grid=encode_cells(observation.grid, CLASSIC_CHANNELS).reshape(SIZE, SIZE, -1),
    )


def features_from_classic(observation: Observation) -> Features:
    """The classic encoding as a network's input."""
    flat = jnp.concatenate([observation.player, observation.programs])
    return Features(flat=flat, grid=observation.grid)


def features_from_compact(observation: CompactObservation) -> Features:
    """The classic encoding and what the screen shows beside it, as a network's input.

    Added are, flat: score (log), turn, and credits and energy without a bound (log); on the
    grid: last-known cells, the types of transmissions, and where the player stands.
    """
    numbers = observation.numbers.astype(jnp.float32)
    flat = jnp.concatenate(
        [
            _player(observation),
            bits_of(observation.programs, NUM_PROGRAMS).astype(jnp.float32),
            jnp.log1p(numbers[np.array([Number.SCORE, Number.CREDITS, Number.ENERGY])]) / 4,
            numbers[Number.TURN][None] / 16,
        ]
    )
    cell = observation.numbers[Number.ROW] * SIZE + observation.numbers[Number.COL]
    shown = encode_cells(observation.grid, CLASSIC_CHANNELS + SCREEN_CHANNELS)
    player = jax.nn.one_hot(cell, NUM_CELLS, dtype=jnp.float32)[:, None]
    grid = jnp.concatenate([shown, player], axis=-1).reshape(SIZE, SIZE, -1)
    return Features(flat=flat, grid=grid)
