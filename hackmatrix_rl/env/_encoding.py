"""Float encodings of an observation: the classic one (rules, section 10) and the default one.

Both are computed from `CompactObservation` when they are needed.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float32, UInt32

from hackmatrix_rl.batching import BitField, bits_of
from hackmatrix_rl.env._environment import Features
from hackmatrix_rl.env._observation import (
    CELL,
    CompactObservation,
    Number,
    Sight,
    compact_observation,
)
from hackmatrix_rl.game import NUM_CELLS, NUM_ENEMY_TYPES, NUM_PROGRAMS, SIZE, GameConfig, State


class Observation(eqx.Module):
    """The classic encoding of one observation.

    Attributes:
        player: numbers of the player, scaled to about [0, 1].
        programs: 1 for each owned program.
        grid: the channels of each cell, in the order of `CLASSIC_CHANNELS`.
    """

    player: Float32[Array, "10"]
    programs: Float32[Array, " num_programs"]
    grid: Float32[Array, "6 6 channels"]


def observe(config: GameConfig, state: State) -> Observation:
    """The classic encoding of one game.

    Args:
        config: sizes of the game.
        state: one game; use `jax.vmap` for several.
    """
    return classic_from_compact(compact_observation(state.position))


@dataclass(frozen=True)
class Channel:
    """How to compute one channel of the encoding from the word of a cell.

    The channel is `min(number / scale, cap)` if the condition `when` holds, and 0 otherwise.

    Attributes:
        field: the field of `CELL` that gives the number. `None`: the channel is 1 where `when`
            holds.
        scale: the number is divided by this.
        cap: upper bound of the channel.
        when: pairs of a field and the number that it must have.
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
"""The channels of the classic encoding, in order."""

SCREEN_CHANNELS = (Channel("last_known"), *_one_hot("transmission_type", *_TYPES))
"""What the screen shows besides the classic channels."""


def encode_cells(
    grid: UInt32[Array, "cells"], channels: tuple[Channel, ...]
) -> Float32[Array, "cells channels"]:
    """Computes the channels of some cells from their words."""
    # One expression for all channels: XLA computes it in one pass. Stacking the channels one by
    # one takes several times as long as the rest of a small network.
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
    """The numbers of the player in the classic encoding."""
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
    """The classic encoding as a network's input."""
    _check_single(observation.player.shape, (10,))
    flat = jnp.concatenate([observation.player, observation.programs])
    return Features(flat=flat, grid=observation.grid)


def features_from_compact(observation: CompactObservation) -> Features:
    """The classic encoding and everything else on the screen, as a network's input.

    The additional flat values are the score, credits and energy (logarithms, without a bound)
    and the turn. The additional channels are the last-known cells of hidden cryptogs, the types
    of transmissions, and the player's cell.
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
    shown = encode_cells(observation.grid, CLASSIC_CHANNELS + SCREEN_CHANNELS)
    player = jax.nn.one_hot(cell, NUM_CELLS, dtype=jnp.float32)[:, None]
    grid = jnp.concatenate([shown, player], axis=-1).reshape(SIZE, SIZE, -1)
    return Features(flat=flat, grid=grid)
