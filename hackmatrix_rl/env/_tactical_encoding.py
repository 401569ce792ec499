"""What a good move depends on, computed from a tactical observation as a network's input.

Everything here follows from the stored integers, so the environment does not compute it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.batching import BitField, bits_of, computed_once, fields, union
from hackmatrix_rl.env._encoding import (
    action_cells,
    affordable,
    features_from_compact,
    program_numbers,
)
from hackmatrix_rl.env._environment import Features
from hackmatrix_rl.env._features import ActionFeatures
from hackmatrix_rl.env._observation import Number
from hackmatrix_rl.env._tactical_observation import (
    MOST_SNAPSHOTS,
    Memory,
    TacticalObservation,
    seen_position,
)
from hackmatrix_rl.game import (
    ENEMY_SPEED,
    MAX_HP,
    NUM_CELLS,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    SIZE,
    SPECS,
    CellSet,
    Content,
    EnemyType,
    Position,
    Program,
    View,
    Yields,
    crosses,
    distances,
    line_of_sight,
    rays,
    siphon_yields,
    yields_of,
)

_WAYS = fields(
    distance=5,
    exit_distance=5,
    pickup_distance=5,
    line_of_fire=1,
    contact=5,
    beside=3,
    virus_near=1,
)
_SIPHONS = fields(points=7, programs=3, credits=4, energy=4, spawns=7, questions=3, undo=1)
"""The planes of a cell in two words: as numbers, the first ones would be 36 writes apart."""

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
"""The planes that follow the compact channels, in order, and what each is divided by.

- distance: steps from the player around blocks.
- exit_distance: steps to the exit around blocks.
- pickup_distance: steps to the nearest data siphon around blocks.
- line_of_fire: the cells of the player's row and column with nothing in between.
- contact: for a visible enemy, 1 / (enemy turns until it attacks where the player stands).
- beside: visible enemies on the four cells around that are not stunned.
- virus_near: whether such a virus can come to one of the four cells with one step.
- points, credits, energy, spawns, questions: what a siphon from here takes or calls; questions
  counts question blocks, of which nothing else is known.
- programs: programs that a siphon from here takes and that the player does not own yet.
- undo: whether UNDO is one of them.
"""

_FAR = 20
"""Distances are no larger; a cell without a path has this one."""

_CONTACTS = (1, 2, 4)
"""Enemies are counted by their turns to contact: up to each of these, and beyond the last. Each
count is a byte of one word, so that one sum over the cells makes all four."""
_BY_CONTACT = 8 * np.arange(len(_CONTACTS) + 1, dtype=np.uint32)

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

    The additional planes are `TACTICAL_PLANES`. The additional flat values are

    - for each program, whether the player can pay for it, whether it would be usable if owned,
      whether it is usable, and whether a siphon from here takes it;
    - the additional planes at the four cells around the player and at its own; 0 off the board;
    - for each direction, what the player attacks there: `_targets`;
    - the numbers of enemies by time to contact;
    - the numbers of `Memory`.
    """
    plain = features_from_compact(observation)
    assert plain.grid is not None  # the compact features have a board
    known = _knowledge(observation)
    flags = [affordable(observation), *known.programs()]
    scale = np.array([_MEMORY_SCALES.get(each, 1.0) for each in Memory], np.float32)
    flat = [
        plain.flat,
        jnp.concatenate(flags).astype(jnp.float32),
        _planes(known.around).ravel(),
        _targets(known.targets, observation.numbers[Number.ATTACK_DAMAGE]).ravel(),
        ((known.contacts >> _BY_CONTACT) & 0xFF).astype(jnp.float32) / 4,
        observation.memory.astype(jnp.float32) / scale,
    ]
    return Features(
        flat=jnp.concatenate(flat),
        grid=jnp.concatenate([plain.grid, _planes(known.cells).reshape(SIZE, SIZE, -1)], axis=-1),
    )


def with_knowledge(observation: TacticalObservation) -> TacticalObservation:
    """The observation with its `Knowledge`."""
    return eqx.tree_at(
        lambda seen: seen.known, observation, _knowledge(observation), is_leaf=lambda x: x is None
    )


def _knowledge(observation: TacticalObservation) -> "Knowledge":
    """What the observation holds already, or what is computed from it."""
    known: Knowledge = observation.known or computed_once(Knowledge.of, observation)
    return known


class Knowledge(eqx.Module):
    """Everything that is computed from an observation, in few words."""

    cells: tuple[UInt32[Array, "36"], UInt32[Array, "36"]]
    around: tuple[UInt32[Array, "5"], UInt32[Array, "5"]]
    targets: UInt32[Array, "4"]
    contacts: UInt32[Array, ""]  # see `_CONTACTS`
    ready: Bool[Array, " num_programs"]  # would be usable if owned
    owned: UInt32[Array, ""]
    to_take: UInt32[Array, ""]  # by a siphon from here

    @staticmethod
    def of(observation: TacticalObservation) -> "Knowledge":
        """All of it."""
        position = seen_position(observation)
        steps = _steps_to(CellSet.of(position.player.cell), position)
        turns = _turns_to_contact(position, steps)
        taken = siphon_yields(yields_of(position.board))
        new = taken.programs & ~position.programs
        cells = _ways(position, steps, turns), _siphons(position, taken, new)
        return Knowledge(
            cells=cells,
            around=_around(observation, cells),
            targets=_lines(position),
            contacts=_contacts(position, turns),
            ready=_ready(observation, position),
            owned=position.programs,
            to_take=union(jnp.where(position.player.cell == _CELLS, new, jnp.uint32(0))),
        )

    def programs(self) -> list[Bool[Array, " num_programs"]]:
        """Whether each program would be usable, is usable, and is taken by a siphon from here."""
        owned = bits_of(self.owned, NUM_PROGRAMS)
        return [self.ready, self.ready & owned, bits_of(self.to_take, NUM_PROGRAMS)]


def _steps_to(start: CellSet, position: Position) -> Int32[Array, "36"]:
    """Steps around blocks between `start` and each cell."""
    return jnp.minimum(distances(start, ~position.board.blocks), _FAR)


def _word(table: Mapping[str, BitField], **planes: Array) -> UInt32[Array, "36"]:
    """The planes in one word a cell.

    XLA computes a reduction once, and anything else again for each channel that reads it.
    """
    placed = [field.placed(planes[name]) for name, field in table.items()]
    return lax.reduce(jnp.stack(placed), np.uint32(0), lax.bitwise_or, (0,))


_Words = tuple[Array, Array]


def _planes(words: _Words) -> Float32[Array, "cells planes"]:
    """`TACTICAL_PLANES` of some cells from their words, all in one expression."""
    table = [*_WAYS.values(), *_SIPHONS.values()]

    def row(values: list[Any], dtype: DTypeLike) -> np.ndarray:
        return np.array([values], dtype)

    first = row([place < len(_WAYS) for place in range(len(table))], bool)
    shift = row([field.shift for field in table], np.uint32)
    largest = row([field.largest for field in table], np.uint32)
    scale = row(list(TACTICAL_PLANES.values()), np.float32)
    number = (jnp.where(first, words[0][:, None], words[1][:, None]) >> shift) & largest
    number = number.astype(jnp.float32)
    inverted = row([name == "contact" for name in TACTICAL_PLANES], bool)
    soon = jnp.where(number > 0, 1.0 / jnp.maximum(number, 1.0), 0.0)
    return jnp.where(inverted, soon, number / scale)


def _ways(
    position: Position, steps: Int32[Array, "36"], turns: Int32[Array, "36"]
) -> UInt32[Array, "36"]:
    """The planes up to `virus_near`."""
    content, enemies, blocks = position.board.content, position.enemies, position.board.blocks
    stops = blocks | enemies.cells | position.transmissions.cells
    able = enemies.present & ~enemies.stunned
    viruses = CellSet.from_array(able & (enemies.type == EnemyType.VIRUS))
    reached = viruses.neighbours() - (blocks | enemies.cells)
    return _word(
        _WAYS,
        distance=steps,
        exit_distance=_steps_to(CellSet.from_array(content == Content.EXIT), position),
        pickup_distance=_steps_to(CellSet.from_array(content == Content.PICKUP), position),
        line_of_fire=line_of_sight(position.player.cell, stops).to_array(),
        contact=jnp.where(enemies.present, turns, 0),
        beside=jnp.sum(crosses(able.astype(jnp.int32))[1:], axis=0, dtype=jnp.int32),
        virus_near=reached.neighbours().to_array(),
    )


_CELLS = np.arange(NUM_CELLS)
_ROWS, _COLS = _CELLS // SIZE, _CELLS % SIZE


def _straight(cell: Int32[Array, ""]) -> Int32[Array, "36"]:
    """Steps between a cell and each other, blocks or not."""
    return jnp.abs(_ROWS - cell // SIZE) + jnp.abs(_COLS - cell % SIZE)


def _turns_to_contact(position: Position, steps: Int32[Array, "36"]) -> Int32[Array, "36"]:
    """Enemy turns until an enemy on each cell attacks, if nothing but blocks is in its way."""
    # Enemy number N stands on cell N: `seen_position`.
    straight, enemies = _straight(position.player.cell), position.enemies
    # An enemy that was pushed onto a block steps off it; no path around blocks leads there.
    direct = (enemies.type == EnemyType.GLITCH) | position.board.blocks.to_array()
    away = jnp.where(direct, straight, steps)
    speed = ENEMY_SPEED[EnemyType.VIRUS]
    faster = lax.div(away + (speed - 1), np.int32(speed))
    turns = jnp.where(enemies.type == EnemyType.VIRUS, faster, away)
    return jnp.maximum(turns, 1) + enemies.stunned.astype(jnp.int32)


def _contacts(position: Position, turns: Int32[Array, "36"]) -> UInt32[Array, ""]:
    """The numbers of enemies by their turns to contact, soonest first."""
    bounds = np.array(_CONTACTS, np.int32)
    later = jnp.sum(turns[:, None] > bounds[None], axis=1, dtype=jnp.uint32)
    return jnp.sum(position.enemies.present.astype(jnp.uint32) << (8 * later), dtype=jnp.uint32)


def _siphons(position: Position, taken: Yields, new: UInt32[Array, "36"]) -> UInt32[Array, "36"]:
    """The planes from `points` on; 0 on blocks, where nobody siphons."""
    word = _word(
        _SIPHONS,
        points=taken.points,
        programs=jnp.bitwise_count(new).astype(jnp.int32),
        credits=taken.credits,
        energy=taken.energy,
        spawns=taken.spawns,
        questions=taken.questions,
        undo=(new >> Program.UNDO) & 1,
    )
    here = CellSet.of(position.player.cell)
    standing = (~position.board.blocks | here).to_array()
    return jnp.where(standing, word, jnp.uint32(0))


def _around(observation: TacticalObservation, words: _Words) -> _Words:
    """The words of the cell of each direction, and of the player's own; 0 off the board."""
    there = action_cells(observation)[:, None] == _CELLS[None]
    first, second = (
        jnp.sum(jnp.where(there, word[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)
        for word in words
    )
    return first, second


_TARGET = fields(kind=3, hp=2, stunned=1, distance=4)
"""What an attack hits, in one word. The kind is 0 without a target, 1 + type of a visible enemy, or
that of a transmission."""

_TRANSMISSION = NUM_ENEMY_TYPES + 1


def _lines(position: Position) -> UInt32[Array, "4"]:
    """What the player attacks in each direction, as words."""
    enemies, coming = position.enemies, position.transmissions.present
    words = _word(
        _TARGET,
        kind=jnp.where(coming, _TRANSMISSION, enemies.type + 1),
        hp=jnp.where(coming, 0, enemies.hp),
        stunned=enemies.stunned & ~coming,
        distance=_straight(position.player.cell),
    )
    targets = enemies.cells | position.transmissions.cells
    up, down, left, right = rays(position.player.cell, position.board.blocks | targets)
    # Each sum makes two directions: a word takes half of 32 bits, and no cell is in both.
    pairs = [
        jnp.where((line & targets).to_array(), words, 0)
        | jnp.where((back & targets).to_array(), words << 16, 0)
        for line, back in ((up, down), (left, right))
    ]
    sums = jnp.stack([jnp.sum(pair, dtype=jnp.uint32) for pair in pairs])
    return ((sums[:, None] >> np.array([[0, 16]], np.uint32)) & 0xFFFF).ravel()


def _targets(
    words: UInt32[Array, "4"], attack_damage: Int32[Array, ""]
) -> Float32[Array, "4 numbers"]:
    """Numbers of what the player attacks in each direction.

    They are its kind (5 flags), hp / 3, whether it is destroyed, whether it is stunned, and
    1 / distance.
    """
    read = {name: field.read(words) for name, field in _TARGET.items()}
    attacked = read["kind"] > 0
    kinds = [read["kind"] == kind for kind in range(1, _TRANSMISSION + 1)]
    near = jnp.where(attacked, 1.0 / jnp.maximum(read["distance"], 1).astype(jnp.float32), 0.0)
    numbers = [
        *kinds,
        read["hp"].astype(jnp.float32) / MAX_HP,
        attacked & (read["hp"] <= attack_damage),
        read["stunned"],
        near,
    ]
    return jnp.stack([each.astype(jnp.float32) for each in numbers], axis=-1)


def _ready(observation: TacticalObservation, position: Position) -> Bool[Array, " num_programs"]:
    """Whether each program would be usable if the player owned it, as far as the player sees."""
    view = View.of(position, can_undo=observation.memory[Memory.SNAPSHOTS] > 0)
    # Not the bits of one word, as in the rules: XLA would compute all of them for each bit.
    met = jnp.stack([SPECS[program].usable(view) for program in Program])
    return met & affordable(observation)


def _program_numbers(observation: TacticalObservation) -> Float32[Array, "num_programs numbers"]:
    """Of each program: owned, affordable, ready, usable, and its costs."""
    ready = _knowledge(observation).ready
    return program_numbers(observation, ready, ready & bits_of(observation.programs, NUM_PROGRAMS))


TACTICAL_ACTIONS = ActionFeatures(cells=action_cells, numbers=_program_numbers)
"""The actions as the tactical observation shows them."""
