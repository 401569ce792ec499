"""The features of a tactical observation: the planes and numbers of its `Knowledge`."""

from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float32, Int32, UInt32

from hackmatrix_rl.env._encoding import (
    action_cells,
    affordable,
    features_from_compact,
    program_numbers,
)
from hackmatrix_rl.env._environment import Features
from hackmatrix_rl.env._features import ActionFeatures
from hackmatrix_rl.env._observation import Number
from hackmatrix_rl.env._tactical_knowledge import (
    BY_CONTACT,
    SIPHONS,
    TARGET,
    TRANSMISSION,
    WAYS,
    Words,
    knowledge_of,
)
from hackmatrix_rl.env._tactical_observation import MOST_SNAPSHOTS, Memory, TacticalObservation
from hackmatrix_rl.games.hackmatrix import MAX_HP, NUM_PROGRAMS, SIZE
from hackmatrix_rl.system.batching import bits_of

TACTICAL_PLANES = MappingProxyType(
    {
        "distance": 10.0,
        "exit_distance": 10.0,
        "pickup_distance": 10.0,
        "line_of_fire": 1.0,
        "contact": 1.0,
        "beside": 2.0,
        "virus_near": 1.0,
        "points": 9.0,
        "programs": 2.0,
        "credits": 5.0,
        "energy": 5.0,
        "spawns": 9.0,
        "questions": 2.0,
        "undo": 1.0,
    }
)
"""The planes after the compact channels, and the divisor of each.

- distance: steps from the player around blocks.
- exit_distance: steps to the exit around blocks.
- pickup_distance: steps to the nearest data-siphon pickup around blocks.
- line_of_fire: whether the cell is in the player's row or column with nothing in between.
- contact: for a visible enemy, 1 / (enemy turns until it attacks the player on its current cell).
- beside: number of visible, unstunned enemies on the four neighbouring cells.
- virus_near: whether a visible, unstunned virus can reach a neighbouring cell with one step.
- points, credits, energy, spawns, questions: the yield of a siphon from here. questions counts
  question blocks, which no other plane counts.
- programs: number of programs that a siphon from here takes and the player does not own.
- undo: whether UNDO is one of them.
"""

_MEMORY_SCALES = MappingProxyType(
    {
        Memory.NEWEST_HP: 3.0,
        Memory.NEWEST_CREDITS: 10.0,
        Memory.SECOND_HP: 3.0,
        Memory.SECOND_CREDITS: 10.0,
        Memory.SNAPSHOTS: float(MOST_SNAPSHOTS),
        Memory.TURNS_TO_TASK: 12.0,
        Memory.TASK_INTERVAL: 12.0,
        Memory.PENDING_TRANSMISSIONS: 9.0,
        Memory.ATK_PLUS_USES: 2.0,
    }
)
"""The divisors of the numbers of `Memory`; the others are flags."""


def features_from_tactical(observation: TacticalObservation) -> Features:
    """The features of the compact observation, and the tactical ones.

    The additional planes are `TACTICAL_PLANES`. The additional flat features are

    - for each program, whether it is affordable, would be usable if owned, is usable, and is taken
      by a siphon from here;
    - the additional planes at the player's four neighbours and at the player's cell; 0 off the
      board;
    - for each direction, the target of an attack (see `_targets`);
    - the numbers of enemies by turns to contact;
    - the numbers of `Memory`.
    """
    plain = features_from_compact(observation)
    assert plain.grid is not None  # the compact features have a board
    known = knowledge_of(observation)
    flags = [affordable(observation), *known.programs()]
    scale = np.array([_MEMORY_SCALES.get(each, 1.0) for each in Memory], np.float32)
    flat = [
        plain.flat,
        jnp.concatenate(flags).astype(jnp.float32),
        _planes(known.around).ravel(),
        _targets(known.targets, observation.numbers[Number.ATTACK_DAMAGE]).ravel(),
        ((known.contacts >> BY_CONTACT) & 0xFF).astype(jnp.float32) / 4,
        observation.memory.astype(jnp.float32) / scale,
    ]
    return Features(
        flat=jnp.concatenate(flat),
        grid=jnp.concatenate([plain.grid, _planes(known.cells).reshape(SIZE, SIZE, -1)], axis=-1),
    )


def _planes(words: Words) -> Float32[Array, "cells planes"]:
    """The `TACTICAL_PLANES` of some cells, in one expression (see `encode_cells`)."""
    table = [*WAYS.values(), *SIPHONS.values()]

    def row(values: list[Any], dtype: DTypeLike) -> np.ndarray:
        return np.array([values], dtype)

    first = row([place < len(WAYS) for place in range(len(table))], bool)
    shift = row([field.shift for field in table], np.uint32)
    largest = row([field.largest for field in table], np.uint32)
    scale = row(list(TACTICAL_PLANES.values()), np.float32)
    number = (jnp.where(first, words[0][:, None], words[1][:, None]) >> shift) & largest
    number = number.astype(jnp.float32)
    inverted = row([name == "contact" for name in TACTICAL_PLANES], bool)
    soon = jnp.where(number > 0, 1.0 / jnp.maximum(number, 1.0), 0.0)
    return jnp.where(inverted, soon, number / scale)


def _targets(
    words: UInt32[Array, "4"], attack_damage: Int32[Array, ""]
) -> Float32[Array, "4 numbers"]:
    """Features of the target in each direction.

    They are its kind (5 flags), hp / 3, whether the attack destroys it, whether it is stunned, and
    1 / distance.
    """
    read = {name: field.read(words) for name, field in TARGET.items()}
    attacked = read["kind"] > 0
    kinds = [read["kind"] == kind for kind in range(1, TRANSMISSION + 1)]
    near = jnp.where(attacked, 1.0 / jnp.maximum(read["distance"], 1).astype(jnp.float32), 0.0)
    numbers = [
        *kinds,
        read["hp"].astype(jnp.float32) / MAX_HP,
        attacked & (read["hp"] <= attack_damage),
        read["stunned"],
        near,
    ]
    return jnp.stack([each.astype(jnp.float32) for each in numbers], axis=-1)


def _program_numbers(observation: TacticalObservation) -> Float32[Array, "num_programs numbers"]:
    """For each program: whether it is owned, affordable, ready and usable, and its costs."""
    ready = knowledge_of(observation).ready
    return program_numbers(observation, ready, ready & bits_of(observation.programs, NUM_PROGRAMS))


TACTICAL_ACTIONS = ActionFeatures(cells=action_cells, numbers=_program_numbers)
"""The features of actions from the tactical observation."""
