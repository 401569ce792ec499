"""The comparison with the recorded outcomes notices an enemy turn that is slightly wrong.

Each mutant replaces one function of the package and is compiled anew. To keep that short,
only the enemy turn is: the positions that it starts from come from the shared `play`, with
STEP active, which holds the enemy turn up and changes nothing else.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games.hackmatrix.outcomes import compare_outcomes, questions
from games.hackmatrix.recordings import FLAGS, Arrays, load, report, rows
from games.hackmatrix.replay import BATCH, Replay
from games.hackmatrix.sampling import position_names, recorded_answers
from games.hackmatrix.statistics import deviations
from hackmatrix_rl.games.hackmatrix import NUM_CELLS, CellSet, EnemyType, from_arrays, to_arrays
from hackmatrix_rl.games.hackmatrix import _enemy_turn as turns
from hackmatrix_rl.games.hackmatrix import _slots as spawning
from hackmatrix_rl.system.batching import Chance, below

pytestmark = pytest.mark.nightly

DRAWS = 110
WAIT = 10
STEP_ACTIVE, SNAPSHOTS = 6, 11
WHOLE = "all but the spawns"


@cache
def turn_positions() -> np.ndarray:
    """The positions of chance.npz whose action is followed by the enemy turn."""
    recording = load("chance")
    completed = np.zeros(len(recording), bool)
    np.logical_or.at(completed, recording.other["outcome_of"], recording.other["completed"])
    turned = (recording.action <= 4) | (recording.action == WAIT)
    return np.flatnonzero(turned & ~completed & (recording.before["game"][:, STEP_ACTIVE] == 0))


@cache
def before_the_turn(replay: Replay) -> Arrays:
    """All positions of chance.npz after their action, before the enemy turn."""
    recording = load("chance")
    held_up = recording.before | {"game": recording.before["game"].copy()}
    held_up["game"][:, STEP_ACTIVE] = 1
    return replay.play(held_up, recording.action, 0).position


def deviations_of_turns(replay: Replay) -> list[str]:
    """Plays enemy turns as the package has them now, and compares with what was recorded."""
    recording = load("chance")
    start = before_the_turn(replay)
    turn = jax.jit(
        jax.vmap(
            lambda position, key: turns.enemy_turn(
                position, jnp.bool_(True), chance=Chance.from_key(key)
            )
        )
    )
    order = np.repeat(turn_positions(), DRAWS)
    answers = []
    for number, first in enumerate(range(0, len(order), BATCH)):
        index = order[np.minimum(first + np.arange(BATCH), len(order) - 1)]
        states = from_arrays(replay.config, rows(start, index))
        keys = jax.random.split(jax.random.key(number), BATCH)
        after = to_arrays(replace(states, position=turn(states.position, keys)))
        # The snapshot is `play`'s to push.
        held = after["game"][:, SNAPSHOTS]
        after["game"][:, SNAPSHOTS] = np.minimum(held + 1, replay.config.history)
        nothing = {name: np.zeros(BATCH) for name in (*FLAGS, "terms")}
        answers.append(questions(rows(start, index), after, nothing))

    asked = recorded_answers().keys() - {"reward and end"}
    tables = compare_outcomes(
        position_names(),
        {name: recorded_answers()[name] for name in asked},
        recording.other["outcome_of"],
        recording.other["outcome_count"],
        {name: np.concatenate([part[name] for part in answers])[: len(order)] for name in asked},
        order,
    )
    return deviations(tables)


def order_of_arrival(size, *, chance):
    """No shuffle: the first enemy moves first."""
    return jnp.arange(size, 0, -1, dtype=jnp.uint32) << 8


def biased_order(size, *, chance):
    """A shuffle in which the first enemy goes before another 2 times in 3."""
    lots = chance.words(2 * size).reshape(2, size)
    first = np.arange(size) == 0
    lots = jnp.where(first, jnp.max(lots, axis=0), lots[0])
    return ((lots >> 15) << 15) | (np.arange(1, size + 1, dtype=np.uint32) << 8)


def last_direction(next_cell):
    """Ties go to the right, not to the left: the rule in a mirror."""

    def mutant(cell, goal, walls, occupied):
        def cell_in_mirror(cell):
            return cell + 5 - 2 * (cell % 6)

        def in_mirror(cells):
            members = cells.to_array().reshape(6, 6)[:, ::-1]
            return CellSet.from_array(members.reshape(NUM_CELLS))

        there = next_cell(
            cell_in_mirror(cell), cell_in_mirror(goal), in_mirror(walls), in_mirror(occupied)
        )
        return cell_in_mirror(there)

    return mutant


def mostly_viruses(spawn_transmissions):
    """Types that are not uniform: one cryptog in three comes as a virus."""

    def mutant(before, *board, chance, **counts):
        slots, missed = spawn_transmissions(before, *board, chance=chance, **counts)
        changes = below(chance.fold_in(7).words(slots.size), 3) == 0
        new = slots.present & ~before.present
        kind = jnp.where(
            new & changes & (slots.type == EnemyType.CRYPTOG), EnemyType.VIRUS, slots.type
        )
        return slots.replace(type=kind), missed

    return mutant


MUTANTS = {
    "a fixed order": (turns, "random_lots", lambda _: order_of_arrival, "enemy 1"),
    "a biased shuffle": (turns, "random_lots", lambda _: biased_order, WHOLE),
    "a wrong tie-break": (turns, "next_cell", last_direction, "enemy 0"),
    "spawns in the line of fire": (
        spawning,
        "line_of_sight",
        lambda _: lambda cell, stops: CellSet.empty(),
        "cell of spawn 0",
    ),
    "types that are not uniform": (turns, "spawn_transmissions", mostly_viruses, "type of spawn 0"),
}
for owner, name, *_ in MUTANTS.values():
    getattr(owner, name)  # a renamed function fails here, in each session, not only at night


def test_the_enemy_turn_as_it_is_passes(replay):
    lines = deviations_of_turns(replay)
    assert not lines, report(lines)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(replay, monkeypatch, name):
    module, function, mutate, question = MUTANTS[name]
    monkeypatch.setattr(module, function, mutate(getattr(module, function)))
    lines = deviations_of_turns(replay)
    assert any(line.startswith(question) for line in lines), report(lines)
