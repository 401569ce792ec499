"""What follows from a tactical observation, in few words: PPO computes it once per step."""

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
"""The planes of a cell in two words: as numbers, the first ones would be 36 writes apart."""

_FAR = 20
"""Distances are no larger; a cell without a path has this one."""

_CONTACTS = (1, 2, 4)
"""Enemies are counted by their turns to contact: up to each of these, and beyond the last. Each
count is a byte of one word, so that one sum over the cells makes all four."""
BY_CONTACT = 8 * np.arange(len(_CONTACTS) + 1, dtype=np.uint32)

TARGET = fields(kind=3, hp=2, stunned=1, distance=4)
"""What an attack hits, in one word. The kind is 0 without a target, 1 + type for a visible enemy,
and `TRANSMISSION` for a transmission."""

TRANSMISSION = NUM_ENEMY_TYPES + 1


def with_knowledge(observation: TacticalObservation) -> TacticalObservation:
    """The observation with its `Knowledge`."""
    return eqx.tree_at(
        lambda seen: seen.known, observation, knowledge_of(observation), is_leaf=lambda x: x is None
    )


def knowledge_of(observation: TacticalObservation) -> "Knowledge":
    """What the observation holds already, or what is computed from it."""
    known: Knowledge | None = observation.known
    return computed_once(Knowledge.from_observation, observation) if known is None else known


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
    def from_observation(observation: TacticalObservation) -> "Knowledge":
        """All of it."""
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
    """The words of the cell of each direction, and of the player's own; 0 off the board."""
    there = action_cells(observation)[:, None] == _CELLS[None]
    first, second = (
        jnp.sum(jnp.where(there, word[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)
        for word in words
    )
    return first, second


def _lines(position: Position) -> UInt32[Array, "4"]:
    """What the player attacks in each direction, as words."""
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
    # Each sum makes two directions: a word takes half of 32 bits, and no cell is in both.
    pairs = [
        jnp.where((line & targets).to_array(), words, 0)
        | jnp.where((back & targets).to_array(), words << 16, 0)
        for line, back in ((up, down), (left, right))
    ]
    sums = jnp.stack([jnp.sum(pair, dtype=jnp.uint32) for pair in pairs])
    return ((sums[:, None] >> np.array([[0, 16]], np.uint32)) & 0xFFFF).ravel()


def _ready(observation: TacticalObservation, position: Position) -> Bool[Array, " num_programs"]:
    """Whether each program would be usable if the player owned it, as far as the player sees."""
    view = View.from_position(position, can_undo=observation.memory[Memory.SNAPSHOTS] > 0)
    # Not the bits of one word, as in the rules: XLA would compute all of them for each bit.
    met = jnp.stack([SPECS[program].usable(view) for program in Program])
    return met & affordable(observation)
