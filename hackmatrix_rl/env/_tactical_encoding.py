"""What a good move depends on, computed from a tactical observation as a network's input.

Everything here follows from the stored integers, so the environment does not compute it.
"""

from types import MappingProxyType

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.env._action_features import ActionFeatures
from hackmatrix_rl.env._encoding import features_from_compact
from hackmatrix_rl.env._environment import Features
from hackmatrix_rl.env._hackmatrix_actions import action_cells, affordable, program_numbers
from hackmatrix_rl.env._seen_position import seen_position
from hackmatrix_rl.env._tactical_observation import MOST_SNAPSHOTS, Memory, TacticalObservation
from hackmatrix_rl.game import (
    ENEMY_SPEED,
    NUM_CELLS,
    SIZE,
    SPECS,
    CellSet,
    Content,
    EnemyType,
    Position,
    Program,
    View,
    distances,
    line_of_sight,
    siphon_yields,
    yields_of,
)

TACTICAL_PLANES = MappingProxyType(
    {
        "distance": 10.0,
        "exit_distance": 10.0,
        "line_of_fire": 1.0,
        "contact": 1.0,
        "points": 9.0,
        "programs": 2.0,
        "credits": 5.0,
        "energy": 5.0,
        "spawns": 9.0,
        "questions": 2.0,
        "undo": 1.0,
    }
)
"""The planes that follow the compact channels, in order, and what each is divided by.

    distance: steps from the player around blocks.
    exit_distance: steps to the exit around blocks.
    line_of_fire: the cells of the player's row and column with nothing in between.
    contact: for a visible enemy, 1 / (enemy turns until it attacks where the player stands).
    points, credits, energy, spawns, questions: what a siphon from here takes or calls; questions
        counts question blocks, of which nothing else is known.
    programs: programs that a siphon from here takes and that the player does not own yet.
    undo: whether UNDO is one of them.
"""

_FAR = 20
"""Distances are no larger; a cell without a path has this one."""

_CONTACTS = ((1, 1), (2, 2), (3, 4))
"""Enemies are counted by their turns to contact, within these bounds and beyond the last."""

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
"""What the numbers of `Memory` are divided by; the others are flags."""


def features_from_tactical(observation: TacticalObservation) -> Features:
    """The features of the compact observation, then tactical ones.

    The additional planes are `TACTICAL_PLANES`. The additional flat values are, for each program,
    whether the player can pay for it, whether it would be usable if owned, and whether it is
    usable; the numbers of enemies by time to contact; and the numbers of `Memory`.
    """
    plain = features_from_compact(observation)
    assert plain.grid is not None  # the compact features have a board
    position = seen_position(observation)
    steps = _steps_to(CellSet.of(position.player.cell), position)
    turns = _turns_to_contact(position, steps)
    planes = [*_ways(position, steps, turns), *_siphons(position)]
    scales = np.array(list(TACTICAL_PLANES.values()), np.float32)
    tactical = jnp.stack([each.astype(jnp.float32) for each in planes], axis=-1) / scales[None]
    ready = _ready(observation, position)
    programs = jnp.stack([affordable(observation), ready, ready & position.owned])
    scale = np.array([_MEMORY_SCALES.get(each, 1.0) for each in Memory], np.float32)
    flat = [
        plain.flat,
        programs.ravel().astype(jnp.float32),
        _contacts(position, turns),
        observation.memory.astype(jnp.float32) / scale,
    ]
    return Features(
        flat=jnp.concatenate(flat),
        grid=_side_by_side(plain.grid, tactical.reshape(SIZE, SIZE, -1)),
    )


def _side_by_side(
    left: Float32[Array, "rows cols some"], right: Float32[Array, "rows cols more"]
) -> Float32[Array, "rows cols all"]:
    """Both channels of a board, in this order; twice as fast on a CPU as a concatenation."""
    some, more = left.shape[-1], right.shape[-1]
    cells = ((0, 0), (0, 0))
    return jnp.pad(left, (*cells, (0, more))) + jnp.pad(right, (*cells, (some, 0)))


def _steps_to(start: CellSet, position: Position) -> Int32[Array, "36"]:
    """Steps around blocks between `start` and each cell."""
    return jnp.minimum(distances(start, ~position.board.blocks), _FAR)


def _ways(position: Position, steps: Int32[Array, "36"], turns: Int32[Array, "36"]) -> list[Array]:
    """The planes up to `contact`."""
    exit_ = CellSet.from_array(position.board.content == Content.EXIT)
    stops = position.board.blocks | position.enemies.cells | position.transmissions.cells
    contact = jnp.where(position.enemies.present, 1.0 / turns.astype(jnp.float32), 0.0)
    return [
        steps,
        _steps_to(exit_, position),
        line_of_sight(position.player.cell, stops).to_array(),
        contact,
    ]


_CELLS = np.arange(NUM_CELLS)
_ROWS, _COLS = _CELLS // SIZE, _CELLS % SIZE


def _turns_to_contact(position: Position, steps: Int32[Array, "36"]) -> Int32[Array, "36"]:
    """Enemy turns until an enemy on each cell attacks, if nothing but blocks is in its way.

    Args:
        position: the position as `seen_position` gives it: enemy number N stands on cell N.
        steps: from the player to each cell, around blocks.
    """
    cell = position.player.cell
    straight = jnp.abs(_ROWS - cell // SIZE) + jnp.abs(_COLS - cell % SIZE)
    enemies = position.enemies
    # An enemy that was pushed onto a block steps off it; no path around blocks leads there.
    direct = (enemies.type == EnemyType.GLITCH) | position.board.blocks.to_array()
    away = jnp.where(direct, straight, steps)
    speed = jnp.where(enemies.type == EnemyType.VIRUS, ENEMY_SPEED[EnemyType.VIRUS], 1)
    return jnp.maximum(-(-away // speed), 1) + enemies.stunned.astype(jnp.int32)


def _contacts(position: Position, turns: Int32[Array, "36"]) -> Float32[Array, "4"]:
    """The numbers of enemies by their turns to contact, soonest first."""
    within = [(turns >= low) & (turns <= high) for low, high in _CONTACTS]
    later = turns > _CONTACTS[-1][1]
    counted = jnp.stack([*within, later]) & position.enemies.present[None]
    return jnp.sum(counted, axis=1, dtype=jnp.float32) / 4


def _siphons(position: Position) -> list[Array]:
    """The planes from `points` on; 0 on blocks, where nobody siphons."""
    taken = siphon_yields(yields_of(position.board))
    new = taken.programs & ~position.programs
    planes = [
        taken.points,
        jnp.bitwise_count(new).astype(jnp.int32),
        taken.credits,
        taken.energy,
        taken.spawns,
        taken.questions,
        ((new >> Program.UNDO) & 1).astype(jnp.int32),
    ]
    here = CellSet.of(position.player.cell)
    standing = (~position.board.blocks | here).to_array()
    return [jnp.where(standing, plane, 0) for plane in planes]


def _ready(observation: TacticalObservation, position: Position) -> Bool[Array, " num_programs"]:
    """Whether each program would be usable if the player owned it, as far as the player sees."""
    view = View.of(position, can_undo=observation.memory[Memory.SNAPSHOTS] > 0)
    # Not the bits of one word, as in the rules: XLA would compute all of them for each bit.
    met = jnp.stack([SPECS[program].usable(view) for program in Program])
    return met & affordable(observation)


def _program_numbers(observation: TacticalObservation) -> Float32[Array, "num_programs numbers"]:
    """Of each program: owned, affordable, ready, usable, and its costs."""
    position = seen_position(observation)
    ready = _ready(observation, position)
    return program_numbers(observation, ready, ready & position.owned)


TACTICAL_ACTIONS = ActionFeatures(cells=action_cells, numbers=_program_numbers)
"""The actions as the tactical observation shows them."""
