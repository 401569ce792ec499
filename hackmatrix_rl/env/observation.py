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
from jaxtyping import Array, Bool, Float32, Int8, Int32

from hackmatrix_rl.env.environment import Features
from hackmatrix_rl.game import GameConfig, State
from hackmatrix_rl.game.board import NUM_CELLS, SIZE, CellSet, row_and_column
from hackmatrix_rl.game.state import (
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Content,
    EnemyType,
    Position,
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


class Plane(IntEnum):
    """Planes of `CompactObservation.grid`; 0 means "none" in each."""

    ENEMY = 0
    """1 + the type of the enemy shown."""
    ENEMY_HP = 1
    ENEMY_STUNNED = 2
    ENEMY_FROM_SIPHON = 3
    BLOCK = 4
    """A `Block`."""
    POINTS = 5
    SIPHONED = 6
    PROGRAM = 7
    """1 + the program of the block shown."""
    SPAWN_COUNT = 8
    TRANSMISSION = 9
    """turns_remaining of the transmission shown."""
    CREDITS = 10
    ENERGY = 11
    PICKUP = 12
    EXIT = 13
    SIPHON_CENTER = 14
    LAST_KNOWN = 15
    """A hidden cryptog was last seen here."""
    TRANSMISSION_TYPE = 16
    """1 + the type of the transmission shown, while SHOW is active."""


class Block(IntEnum):
    """What kind of block is shown."""

    NONE = 0
    DATA = 1
    PROGRAM = 2
    QUESTION = 3


class CompactObservation(eqx.Module):
    """Everything a person at the original's screen sees, as integers.

    Attributes:
        numbers: one entry a `Number`, unscaled.
        programs: the programs that are owned.
        grid: one plane a `Plane`; cell = row * 6 + col.
    """

    numbers: Int32[Array, "12"]
    programs: Bool[Array, "23"]
    grid: Int8[Array, "17 36"]


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
        Number.ROW: player.cell.astype(jnp.int32) // SIZE,
        Number.COL: player.cell.astype(jnp.int32) % SIZE,
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
    enemy, last_known = _enemies_by_cell(position)
    transmission, transmission_type = _transmissions_by_cell(position)
    siphoned = board.siphoned.to_array()
    block = is_block(board.content)
    data, program = board.content == Content.DATA, board.content == Content.PROGRAM
    kind = jnp.where(data, Block.DATA, jnp.where(program, Block.PROGRAM, Block.QUESTION))
    loose = ~block | siphoned
    planes = {
        Plane.ENEMY: enemy & 7,
        Plane.ENEMY_HP: (enemy >> 3) & 3,
        Plane.ENEMY_STUNNED: (enemy >> 5) & 1,
        Plane.ENEMY_FROM_SIPHON: (enemy >> 6) & 1,
        Plane.BLOCK: jnp.where(block, kind, Block.NONE),
        Plane.POINTS: jnp.where(data, board.value, 0),
        Plane.SIPHONED: block & siphoned,
        Plane.PROGRAM: jnp.where(program, board.value + 1, 0),
        Plane.SPAWN_COUNT: jnp.where(data | program, board.spawn_count, 0),
        Plane.TRANSMISSION: transmission,
        Plane.CREDITS: jnp.where(loose, board.credits, 0),
        Plane.ENERGY: jnp.where(loose, board.energy, 0),
        Plane.PICKUP: board.content == Content.PICKUP,
        Plane.EXIT: board.content == Content.EXIT,
        Plane.SIPHON_CENTER: board.siphon_center.to_array(),
        Plane.LAST_KNOWN: last_known.to_array(),
        Plane.TRANSMISSION_TYPE: transmission_type,
    }
    return CompactObservation(
        numbers=jnp.stack([numbers[number] for number in Number]),
        programs=position.owned,
        grid=jnp.stack([planes[plane].astype(jnp.int8) for plane in Plane]),
    )


def _enemies_by_cell(position: Position) -> tuple[Int8[Array, "36"], CellSet]:
    """The enemy shown on each cell, and where hidden cryptogs were last seen.

    The first is one number a cell: 1 + type in bits 0-2, hp in 3-4, stunned, from siphon;
    0 where none is shown.
    """
    enemies = position.enemies
    row, column = row_and_column(position.player.cell)
    in_sight = (row | column).has(enemies.cell) | position.show_activated
    hidden = (enemies.type == EnemyType.CRYPTOG) & ~in_sight
    look = (
        (enemies.type + 1)
        | (enemies.hp << 3)
        | (enemies.stunned.astype(jnp.int8) << 5)
        | (enemies.spawned_from_siphon.astype(jnp.int8) << 6)
    )
    shown = _first_by_cell(enemies.cell, enemies.present, jnp.where(hidden, jnp.int8(0), look))

    slots = np.arange(enemies.present.size)
    earlier = (slots[None, :] < slots[:, None]) & enemies.present[None, :]
    behind = ((enemies.cell[None, :] == enemies.cell[:, None]) & earlier).any(axis=1)
    hints = CellSet.of_cells(enemies.last_known, enemies.present & hidden & ~behind)
    return shown, hints


def _transmissions_by_cell(position: Position) -> tuple[Int8[Array, "36"], Int8[Array, "36"]]:
    """turns_remaining, and under SHOW 1 + the type, of the transmission on each cell."""
    slots = position.transmissions
    turns = jnp.clip(slots.turns_remaining, -127, 127).astype(jnp.int8)
    kind = jnp.where(position.show_activated, slots.type + 1, jnp.int8(0))
    return (
        _first_by_cell(slots.cell, slots.present, turns),
        _first_by_cell(slots.cell, slots.present, kind),
    )


def _first_by_cell(
    cell: Int8[Array, " n"], present: Bool[Array, " n"], value: Int8[Array, " n"]
) -> Int8[Array, "36"]:
    """For each cell the value of the first entry on it; 0 where there is none."""
    cell = jnp.where(present, cell, jnp.int8(-1))
    shown = jnp.zeros(NUM_CELLS, jnp.int8)
    for slot in reversed(range(cell.size)):  # the first one writes last
        shown = jnp.where(np.arange(NUM_CELLS, dtype=np.int8) == cell[slot], value[slot], shown)
    return shown


@dataclass(frozen=True)
class Channel:
    """How a channel of the encoding follows from a plane.

    Attributes:
        plane: where the value of a cell comes from.
        equals: the channel is 1 where the value is this, else 0; `None`: it is the value
            itself,
        scale: divided by this,
        cap: and not more than this.
    """

    plane: Plane
    equals: int | None = None
    scale: float = 1.0
    cap: float = np.inf


def _one_hot(plane: Plane, size: int) -> list[Channel]:
    return [Channel(plane, equals=which) for which in range(1, size + 1)]


CLASSIC_CHANNELS = (
    *_one_hot(Plane.ENEMY, NUM_ENEMY_TYPES),
    Channel(Plane.ENEMY_HP, scale=3),
    Channel(Plane.ENEMY_STUNNED),
    Channel(Plane.ENEMY_FROM_SIPHON),
    *_one_hot(Plane.BLOCK, len(Block) - 1),
    Channel(Plane.POINTS, scale=9),
    Channel(Plane.SIPHONED),
    *_one_hot(Plane.PROGRAM, NUM_PROGRAMS),
    Channel(Plane.SPAWN_COUNT, scale=9),
    Channel(Plane.TRANSMISSION, scale=4, cap=1),
    Channel(Plane.CREDITS, scale=3),
    Channel(Plane.ENERGY, scale=3),
    Channel(Plane.PICKUP),
    Channel(Plane.EXIT),
    Channel(Plane.SIPHON_CENTER),
)
"""The channels of the classic encoding, in its order."""

SCREEN_CHANNELS = (
    Channel(Plane.LAST_KNOWN),
    *_one_hot(Plane.TRANSMISSION_TYPE, NUM_ENEMY_TYPES),
)
"""What the screen shows beside them."""


def _encode_cells(
    grid: Int8[Array, "planes cells"], channels: tuple[Channel, ...]
) -> Float32[Array, "cells channels"]:
    # One expression for all channels: XLA makes one pass of it, where stacking the channels
    # one by one takes several times as long as the rest of a small network.
    values = grid.T[:, np.array([channel.plane for channel in channels])]
    equals = np.array([channel.equals or 0 for channel in channels], np.int8)[None]
    scale = np.array([channel.scale for channel in channels], np.float32)[None]
    cap = np.array([channel.cap for channel in channels], np.float32)[None]
    scaled = jnp.minimum(values.astype(jnp.float32) / scale, cap)
    return jnp.where(equals > 0, (values == equals).astype(jnp.float32), scaled)


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
        programs=observation.programs.astype(jnp.float32),
        grid=_encode_cells(observation.grid, CLASSIC_CHANNELS).reshape(SIZE, SIZE, -1),
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
            observation.programs.astype(jnp.float32),
            jnp.log1p(numbers[np.array([Number.SCORE, Number.CREDITS, Number.ENERGY])]) / 4,
            numbers[Number.TURN][None] / 16,
        ]
    )
    cell = observation.numbers[Number.ROW] * SIZE + observation.numbers[Number.COL]
    shown = _encode_cells(observation.grid, CLASSIC_CHANNELS + SCREEN_CHANNELS)
    player = jax.nn.one_hot(cell, NUM_CELLS, dtype=jnp.float32)[:, None]
    grid = jnp.concatenate([shown, player], axis=-1).reshape(SIZE, SIZE, -1)
    return Features(flat=flat, grid=grid)
