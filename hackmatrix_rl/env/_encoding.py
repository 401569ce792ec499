"""Float encodings of an observation: classic (rules, section 10) and compact."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.env._environment import Features
from hackmatrix_rl.env._features import ActionFeatures, Columns, FeatureSplit
from hackmatrix_rl.env._observation import (
    CELL,
    CompactObservation,
    Number,
    Sight,
    compact_observation,
)
from hackmatrix_rl.games.hackmatrix import (
    CREDITS,
    ENERGY,
    NUM_CELLS,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    SIZE,
    GameConfig,
    State,
)
from hackmatrix_rl.system.batching import BitField, bits_of


class Observation(eqx.Module):
    """The classic encoding of one observation."""

    player: Float32[Array, "10"]  #: Numbers of the player, scaled to about [0, 1].
    programs: Float32[Array, " num_programs"]  #: 1 for an owned program, else 0.
    #: The `CLASSIC_CHANNELS` of each cell.
    grid: Float32[Array, "6 6 channels"]


def observe(config: GameConfig, state: State) -> Observation:
    """The classic encoding of one game.

    Args:
        config: sizes of the game (unused).
        state: one game; use `jax.vmap` for a batch.
    """
    return classic_from_compact(compact_observation(state.position))


@dataclass(frozen=True)
class Channel:
    """A channel of the encoding, as a function of the word of a cell.

    It is `min(number / scale, cap)` if the condition `when` holds, else 0.
    """

    #: The field of `CELL` with the number. `None`: the channel is 1 where `when` holds.
    field: str | None = None
    scale: float = 1.0
    cap: float = np.inf
    when: tuple[tuple[str, int], ...] = ()  #: Pairs of a field and its required number.


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
"""The channels of the classic encoding, in order."""

SCREEN_CHANNELS = (Channel("last_known"), *_one_hot("transmission_type", *_TYPES))
"""The channels of the compact encoding that the classic one lacks."""


def encode_cells(
    grid: UInt32[Array, "cells"],
    channels: tuple[Channel, ...],
    marked: Bool[Array, "cells"] | None = None,
) -> Float32[Array, "cells channels"]:
    """The channels of some cells, from their words.

    `marked` adds a last channel, which is 1 for a marked cell.
    """
    # XLA computes one expression for all channels in one pass. Stacking the channels takes several
    # times as long as the rest of a small network.
    table = [CELL[channel.field] if channel.field else BitField(0, 0) for channel in channels]
    need = [[(CELL[name], number) for name, number in channel.when] for channel in channels]
    last = [False] * len(channels)
    if marked is not None:
        channels = (*channels, Channel())
        table, need, last = [*table, BitField(0, 0)], [*need, [(BitField(0, 1), 1)]], [*last, True]

    def row(values: Sequence[float], dtype: DTypeLike) -> np.ndarray:
        return np.array([values], dtype)

    mask = row([sum(field.mask for field, _ in each) for each in need], np.uint32)
    wanted = row([sum(n << field.shift for field, n in each) for each in need], np.uint32)
    shift = row([field.shift for field in table], np.uint32)
    largest = row([field.largest for field in table], np.uint32)
    one = row([0 if channel.field else 1 for channel in channels], np.float32)
    # Multiplication is faster than division, with the same result for all numbers that occur: up
    # to 15 / 9 and 3 / 3.
    factor = row([1 / channel.scale for channel in channels], np.float32)
    cap = row([channel.cap for channel in channels], np.float32)
    words = grid[:, None]
    if marked is not None:
        words = jnp.where(row(last, bool), marked[:, None].astype(jnp.uint32), words)
    # By way of int32: a TPU has no instruction that converts uint32 to float32.
    number = ((words >> shift) & largest).astype(jnp.int32).astype(jnp.float32)
    value = jnp.minimum(number * factor, cap) + one
    return jnp.where((words & mask) == wanted, value, 0)


def _player(observation: CompactObservation) -> Float32[Array, "10"]:
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


def _check_single(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(
            f"features are made of ONE observation, whose first array is of shape {expected}, not "
            f"{shape}; for a batch use jax.vmap(network)(observations, carries)"
        )


def features_from_classic(observation: Observation) -> Features:
    _check_single(observation.player.shape, (10,))
    flat = jnp.concatenate([observation.player, observation.programs])
    return Features(flat=flat, grid=observation.grid)


def features_from_compact(observation: CompactObservation) -> Features:
    """The features of the compact observation: the classic ones, and the rest of the screen.

    The additional flat features are the turn and the logarithms of score, credits and energy. The
    additional channels are `SCREEN_CHANNELS` and the player's cell.
    """
    _check_single(observation.grid.shape, (NUM_CELLS,))
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
    player = np.arange(NUM_CELLS, dtype=np.int32) == cell
    grid = encode_cells(observation.grid, CLASSIC_CHANNELS + SCREEN_CHANNELS, player)
    grid = grid.reshape(SIZE, SIZE, -1)
    return Features(flat=flat, grid=grid)


# Static features are those of blocks, resources, pickups and the exit: 34 of the 48 channels, which
# change in about 1 of 20 steps. Those of enemies and transmissions are sparse: a board has about
# one of them.
_FIELDS = {"content", "value", "spawn_count", "credits", "energy", "siphoned", "siphon_center"}
_BITS = np.uint32(sum(CELL[name].mask for name in _FIELDS))
_CHANNELS = CLASSIC_CHANNELS + SCREEN_CHANNELS
_IS_STATIC = tuple(
    {name for name, _ in channel.when} | {channel.field} - {None} <= _FIELDS
    for channel in _CHANNELS
)
_STATIC = tuple(each for each, static in zip(_CHANNELS, _IS_STATIC, strict=True) if static)
_SPARSE = tuple(each for each, static in zip(_CHANNELS, _IS_STATIC, strict=True) if not static)


def _others(observation: CompactObservation) -> Float32[Array, " others"]:
    features = features_from_compact(observation)
    assert features.grid is not None
    # The last channel is the player's cell.
    return jnp.concatenate([features.grid[..., -1].ravel(), features.flat])


def _columns(observation: CompactObservation) -> Columns:
    features = jax.eval_shape(features_from_compact, observation)
    assert features.grid is not None
    every = np.arange(features.grid.size + features.flat.size)
    grid = every[: features.grid.size].reshape(-1, len(_CHANNELS) + 1)
    static = np.array(_IS_STATIC)
    return Columns(
        static=grid[:, :-1][:, static].ravel(),
        sparse=grid[:, :-1][:, ~static].ravel(),
        others=np.concatenate([grid[:, -1], every[features.grid.size :]]),
    )


COMPACT_SPLIT = FeatureSplit(
    encode=features_from_compact,
    seen=lambda observation: observation.grid & _BITS,
    static=lambda observation: encode_cells(observation.grid, _STATIC).ravel(),
    sparse=lambda observation: observation.grid & ~_BITS,
    show=lambda words: encode_cells(words, _SPARSE),
    others=_others,
    columns=_columns,
)
"""The split of the features of `features_from_compact`."""


def action_cells(seen: CompactObservation) -> Int32[Array, "5"]:
    """The neighbouring cell of each direction, and the player's cell for the siphon."""
    row, col = seen.numbers[Number.ROW], seen.numbers[Number.COL]
    rows = row + np.array([1, -1, 0, 0, 0], np.int32)
    cols = col + np.array([0, 0, -1, 1, 0], np.int32)
    on_board = (rows >= 0) & (rows < SIZE) & (cols >= 0) & (cols < SIZE)
    return jnp.where(on_board, rows * SIZE + cols, -1)


_COSTS = np.stack([CREDITS, ENERGY], axis=-1).astype(np.float32) / 5


def affordable(seen: CompactObservation) -> Bool[Array, " num_programs"]:
    """Whether the player can pay for each program, owned or not."""
    credits_, energy = seen.numbers[Number.CREDITS], seen.numbers[Number.ENERGY]
    return (credits_ >= CREDITS) & (energy >= ENERGY)


def program_numbers(
    seen: CompactObservation, *further: Bool[Array, " num_programs"]
) -> Float32[Array, "num_programs numbers"]:
    """For each program: whether it is owned, affordable, the `further` flags, and its costs."""
    flags = [bits_of(seen.programs, NUM_PROGRAMS), affordable(seen), *further]
    known = jnp.stack(flags, axis=-1).astype(jnp.float32)
    return jnp.concatenate([known, _COSTS], axis=-1)


COMPACT_ACTIONS = ActionFeatures(cells=action_cells, numbers=program_numbers)
"""The features of actions from the compact observation."""
