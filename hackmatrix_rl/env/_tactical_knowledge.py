"""The intermediate results of the tactical encoding, as words. A rollout stores them."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.env._encoding import action_cells, affordable
from hackmatrix_rl.env._tactical_observation import Memory, TacticalObservation, seen_position
from hackmatrix_rl.games.hackmatrix import (
    ENEMY_SPEED,
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
from hackmatrix_rl.system.batching import BitField, bits_of, computed_once, fields, union

Words = tuple[Array, Array]


WAYS = fields(
    distance=5,
    exit_distance=5,
    pickup_distance=5,
    line_of_fire=1,
    contact=5,
    beside=3,
    virus_near=1,
)
SIPHONS = fields(points=7, programs=3, credits=4, energy=4, spawns=7, questions=3, undo=1)
"""The planes of a cell, in two words."""

_FAR = 20
"""The maximum of distances, and the distance of an unreachable cell."""

_CONTACTS = (1, 2, 4)
"""Enemies are counted by their turns to contact: up to 1, 2, up to 4, and more. Each count is a
byte of one word, so one sum over the cells gives all four: turns [1 3 4] -> 1 | 2 << 16."""
BY_CONTACT = 8 * np.arange(len(_CONTACTS) + 1, dtype=np.uint32)

TARGET = fields(kind=3, hp=2, stunned=1, distance=4)
"""The target of an attack, in one word. `kind` is 0 without a target, 1 + type of a visible enemy,
or `TRANSMISSION`."""

TRANSMISSION = NUM_ENEMY_TYPES + 1


def with_knowledge(observation: TacticalObservation) -> TacticalObservation:
    return eqx.tree_at(
        lambda seen: seen.known, observation, knowledge_of(observation), is_leaf=lambda x: x is None
    )


def knowledge_of(observation: TacticalObservation) -> "Knowledge":
    """The `Knowledge` of an observation, computed if it has none."""
    known: Knowledge | None = observation.known
    return computed_once(Knowledge.from_observation, observation) if known is None else known


class Knowledge(eqx.Module):
    """The intermediate results of the tactical encoding."""

    cells: tuple[UInt32[Array, "36"], UInt32[Array, "36"]]  #: Words of `WAYS` and `SIPHONS`.
    around: tuple[UInt32[Array, "5"], UInt32[Array, "5"]]  #: `cells` at the `action_cells`.
    targets: UInt32[Array, "4"]  #: A word of `TARGET` for each direction.
    contacts: UInt32[Array, ""]  #: See `_CONTACTS`.
    ready: Bool[Array, " num_programs"]  #: Whether a program would be usable if owned.
    owned: UInt32[Array, ""]  #: The bit set of owned programs.
    to_take: UInt32[Array, ""]  #: The bit set of new programs that a siphon from here takes.

    @staticmethod
    def from_observation(observation: TacticalObservation) -> "Knowledge":
        position = seen_position(observation)
        steps = _steps_to(CellSet.from_cell(position.player.cell), position)
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
        """Whether each program would be usable if owned, is usable, and is taken by a siphon."""
        owned = bits_of(self.owned, NUM_PROGRAMS)
        return [self.ready, self.ready & owned, bits_of(self.to_take, NUM_PROGRAMS)]


def _steps_to(start: CellSet, position: Position) -> Int32[Array, "36"]:
    """Steps around blocks from `start` to each cell."""
    return jnp.minimum(distances(start, ~position.board.blocks), _FAR)


def _word(table: Mapping[str, BitField], **planes: Array) -> UInt32[Array, "36"]:
    """The planes as one word per cell."""
    # XLA computes a reduction once. It would repeat any other operation in every channel.
    placed = [field.placed(planes[name]) for name, field in table.items()]
    return lax.reduce(jnp.stack(placed), np.uint32(0), lax.bitwise_or, (0,))


def _ways(
    position: Position, steps: Int32[Array, "36"], turns: Int32[Array, "36"]
) -> UInt32[Array, "36"]:
    """The planes of `WAYS`."""
    content, enemies, blocks = position.board.content, position.enemies, position.board.blocks
    stops = blocks | enemies.cells | position.transmissions.cells
    able = enemies.present & ~enemies.stunned
    viruses = CellSet.from_array(able & (enemies.type == EnemyType.VIRUS))
    reached = viruses.neighbours() - (blocks | enemies.cells)
    return _word(
        WAYS,
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
    """Manhattan distance from a cell to each cell."""
    return jnp.abs(_ROWS - cell // SIZE) + jnp.abs(_COLS - cell % SIZE)


def _turns_to_contact(position: Position, steps: Int32[Array, "36"]) -> Int32[Array, "36"]:
    """Enemy turns until an enemy on each cell attacks, if only blocks are in its way."""
    # The enemy in slot N is on cell N (see `seen_position`).
    straight, enemies = _straight(position.player.cell), position.enemies
    # No path around blocks leads to a block, but an enemy that was pushed onto one can leave it.
    direct = (enemies.type == EnemyType.GLITCH) | position.board.blocks.to_array()
    away = jnp.where(direct, straight, steps)
    speed = ENEMY_SPEED[EnemyType.VIRUS]
    faster = lax.div(away + (speed - 1), np.int32(speed))
    turns = jnp.where(enemies.type == EnemyType.VIRUS, faster, away)
    return jnp.maximum(turns, 1) + enemies.stunned.astype(jnp.int32)


def _contacts(position: Position, turns: Int32[Array, "36"]) -> UInt32[Array, ""]:
    """Numbers of enemies by turns to contact (see `_CONTACTS`)."""
    bounds = np.array(_CONTACTS, np.int32)
    later = jnp.sum(turns[:, None] > bounds[None], axis=1, dtype=jnp.uint32)
    return jnp.sum(position.enemies.present.astype(jnp.uint32) << (8 * later), dtype=jnp.uint32)


def _siphons(position: Position, taken: Yields, new: UInt32[Array, "36"]) -> UInt32[Array, "36"]:
    """The planes of `SIPHONS`; 0 on blocks, except under the player."""
    word = _word(
        SIPHONS,
        points=taken.points,
        programs=jnp.bitwise_count(new).astype(jnp.int32),
        credits=taken.credits,
        energy=taken.energy,
        spawns=taken.spawns,
        questions=taken.questions,
        undo=(new >> Program.UNDO) & 1,
    )
    here = CellSet.from_cell(position.player.cell)
    standing = (~position.board.blocks | here).to_array()
    return jnp.where(standing, word, jnp.uint32(0))


def _around(observation: TacticalObservation, words: Words) -> Words:
    """The words at the neighbour in each direction and at the player's cell; 0 off the board."""
    there = action_cells(observation)[:, None] == _CELLS[None]
    first, second = (
        jnp.sum(jnp.where(there, word[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)
        for word in words
    )
    return first, second


def _lines(position: Position) -> UInt32[Array, "4"]:
    """The word of the target in each direction."""
    enemies, coming = position.enemies, position.transmissions.present
    words = _word(
        TARGET,
        kind=jnp.where(coming, TRANSMISSION, enemies.type + 1),
        hp=jnp.where(coming, 0, enemies.hp),
        stunned=enemies.stunned & ~coming,
        distance=_straight(position.player.cell),
    )
    targets = enemies.cells | position.transmissions.cells
    up, down, left, right = rays(position.player.cell, position.board.blocks | targets)
    # A word of `TARGET` has at most 16 bits, so each sum is of two directions: up | down << 16.
    pairs = [
        jnp.where((line & targets).to_array(), words, 0)
        | jnp.where((back & targets).to_array(), words << 16, 0)
        for line, back in ((up, down), (left, right))
    ]
    sums = jnp.stack([jnp.sum(pair, dtype=jnp.uint32) for pair in pairs])
    return ((sums[:, None] >> np.array([[0, 16]], np.uint32)) & 0xFFFF).ravel()


def _ready(observation: TacticalObservation, position: Position) -> Bool[Array, " num_programs"]:
    """Whether each program would be usable if owned, as far as the player sees."""
    view = View.from_position(position, can_undo=observation.memory[Memory.SNAPSHOTS] > 0)
    # Not a word as in `usable_programs`: XLA would compute all of its bits for each bit.
    met = jnp.stack([SPECS[program].usable(view) for program in Program])
    return met & affordable(observation)
