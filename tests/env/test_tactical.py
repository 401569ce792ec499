"""The tactical observation, and what is computed from it, on positions made by hand."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from games.hackmatrix.positions import block_of, daemon, data, glitch, position, transmission, virus
from games.hackmatrix.recordings import CONFIG, load, rows

from hackmatrix_rl.agent import RolloutCollector
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.env import TACTICAL_PLANES, CompactObservation, HackMatrix, Memory, env_keys
from hackmatrix_rl.env._tactical_encoding import TACTICAL_ACTIONS
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    NUM_PROGRAMS,
    Content,
    GameConfig,
    Program,
    from_arrays,
    legal_actions,
    recall,
)
from hackmatrix_rl.games.hackmatrix._history import empty_history, remember

TACTICAL = HackMatrix(CONFIG, observation="tactical")
KEY = jax.random.key(0)


@jax.jit
@jax.vmap
def look(game):
    """Observation, features, numbers of the programs, and the true mask, of each game."""
    seen = TACTICAL.observe(game)
    return (
        seen,
        TACTICAL.spec.encode(seen),
        TACTICAL_ACTIONS.numbers(seen),
        legal_actions(CONFIG, game),
    )


def planes(**given):
    """The tactical planes of one position by name, rows from the bottom up."""
    _, features, _, _ = look(from_arrays(CONFIG, position(**given)))
    grid = np.asarray(features.grid[0])[..., -len(TACTICAL_PLANES) :]
    return {
        name: grid[..., index] * scale
        for index, (name, scale) in enumerate(TACTICAL_PLANES.items())
    }


def at(plane, *cells):
    return [round(float(plane[cell]), 3) for cell in cells]


WALL = {(1, col): data(5) for col in range(5)}


def test_distances_lead_around_blocks_and_a_line_of_fire_ends_at_the_first_thing():
    found = planes(player=(0, 0), exit=(5, 5), cells=WALL)
    assert at(found["distance"], (0, 0), (0, 5), (1, 5), (2, 5), (2, 0)) == [0, 5, 6, 7, 12]
    assert at(found["exit_distance"], (5, 5), (2, 0), (0, 0)) == [0, 8, 10]
    assert at(found["distance"], (1, 0)) == [20]  # nobody walks onto a block
    found = planes(player=(2, 2), enemies=[daemon(2, 4)], cells={(4, 2): data(1)})
    line = {tuple(map(int, cell)) for cell in np.argwhere(found["line_of_fire"])}
    assert line == {(2, 0), (2, 1), (2, 3), (2, 4), (1, 2), (0, 2), (3, 2), (4, 2)}


def test_contact_counts_turns_by_speed_and_only_glitches_go_through_blocks():
    enemies = [virus(0, 4), daemon(0, 3), glitch(2, 0), daemon(3, 0, stunned=1)]
    found = planes(player=(0, 0), cells=WALL, enemies=enemies)
    turns = 1 / found["contact"][[0, 0, 2, 3], [4, 3, 0, 0]]
    np.testing.assert_allclose(turns, [2, 3, 2, 14], rtol=1e-5)
    assert np.count_nonzero(found["contact"]) == 4
    found = planes(player=(0, 0), enemies=[virus(0, 1), daemon(1, 0)])
    assert at(found["contact"], (0, 1), (1, 0)) == [1, 1]


SIPHONED = list(TACTICAL_PLANES)[list(TACTICAL_PLANES).index("points") :]

CROSS = {
    (2, 1): data(7),
    (1, 2): block_of(Program.UNDO, spawn_count=3),
    (3, 2): block_of(Program.PUSH, spawn_count=4),
    (2, 3): {"content": int(Content.HIDDEN_DATA), "value": 9, "spawn_count": 9},
    (2, 2): {"credits": 3},
    (4, 4): {"energy": 2},
}


def test_a_mirrored_position_has_mirrored_planes():
    enemies = [(virus, 1, 4), (daemon, 3, 2), (glitch, 5, 0)]
    plain = planes(
        player=(2, 2), exit=(5, 0), cells=CROSS | {(2, 2): {}},
        enemies=[kind(row, col) for kind, row, col in enemies],
    )  # fmt: skip
    mirrored = planes(
        player=(2, 2), exit=(0, 5),
        cells={(col, row): what for (row, col), what in CROSS.items()} | {(2, 2): {}},
        enemies=[kind(col, row) for kind, row, col in enemies],
    )  # fmt: skip
    for name, plane in plain.items():
        np.testing.assert_array_equal(mirrored[name].T, plane, err_msg=name)


def flat_parts(**given):
    """The flat tactical values of one position: of programs, around the player, of targets."""
    _, features, _, _ = look(from_arrays(CONFIG, position(**given)))
    flat, end = np.asarray(features.flat[0]), -len(Memory) - 4
    start = end - 4 * 9
    targets = flat[start:end].reshape(4, 9)
    around = flat[start - 5 * len(TACTICAL_PLANES) : start].reshape(5, -1)
    programs = flat[: start - around.size][-4 * NUM_PROGRAMS :].reshape(4, NUM_PROGRAMS)
    return programs, around, targets


def test_each_direction_tells_what_an_attack_there_hits():
    _, _, targets = flat_parts(
        player=(2, 2),
        enemies=[virus(4, 2, hp=1), daemon(5, 2), glitch(2, 0, stunned=1), daemon(0, 2)],
        cells={(1, 2): data(1)},
        transmissions=[transmission(2, 4)],
        attack_damage=1,
    )
    up, down, left, right = targets.astype(np.float64).round(3).tolist()
    assert up == [1, 0, 0, 0, 0, 0.333, 1, 0, 0.5], "the first in line, which one hit destroys"
    assert down == [0] * 9, "a block ends the look"
    assert left == [0, 0, 1, 0, 0, 0.667, 0, 1, 0.5]
    assert right == [0, 0, 0, 0, 1, 0, 1, 0, 0.5]


def test_the_planes_around_the_player_come_once_more():
    given = {"player": (3, 3), "exit": (5, 5), "cells": CROSS, "enemies": [daemon(5, 3)]}
    found = planes(**given)
    grid = np.stack([found[name] / scale for name, scale in TACTICAL_PLANES.items()], axis=-1)
    _, around, _ = flat_parts(**given)
    np.testing.assert_allclose(around, grid[[4, 2, 3, 3, 3], [3, 3, 2, 4, 3]], rtol=1e-6)
    corner = flat_parts(player=(0, 0))[1]
    assert not corner[[1, 2]].any(), "off the board there is nothing"
    assert corner[[0, 3, 4]].any(axis=1).all()


def test_what_can_reach_a_cell_is_shown_there():
    found = planes(
        player=(5, 5), exit=(0, 5), cells={(1, 1): data(1)},
        enemies=[virus(0, 0), daemon(3, 3), glitch(3, 5, stunned=1)],
    )  # fmt: skip
    assert at(found["beside"], (0, 1), (3, 4), (4, 5), (2, 3)) == [1, 1, 0, 1]
    assert at(found["virus_near"], (0, 2), (2, 0), (0, 3), (2, 1)) == [1, 1, 0, 0]
    pickup = {"content": int(Content.PICKUP)}
    near = planes(exit=(0, 5), cells={(0, 3): pickup, (5, 5): pickup})["pickup_distance"]
    assert at(near, (0, 0), (0, 3), (5, 4)) == [3, 0, 1]


def test_enemies_are_counted_by_their_turns_to_contact():
    enemies = [virus(0, 1), virus(0, 2), daemon(2, 0), daemon(3, 0), daemon(5, 5)]
    _, features, _, _ = look(from_arrays(CONFIG, position(exit=(5, 0), enemies=enemies)))
    counts = np.asarray(features.flat[0])[-len(Memory) - 4 : -len(Memory)] * 4
    assert counts.tolist() == [2, 1, 1, 1]


def test_programs_are_usable_as_the_rules_say():
    # On recorded positions, the features must say what the mask of the rules says.
    recorded = load("deterministic").before
    some = np.random.default_rng(0).permutation(len(recorded["player"]))[:600]
    seen, _, *others = look(from_arrays(CONFIG, rows(recorded, some)))
    numbers, mask = map(np.asarray, others)
    owned, affordable, ready, usable = (numbers[..., index] > 0 for index in range(4))
    enemies = rows(recorded, some)["num_enemies"]
    # Hidden cryptogs, and all but the first enemy of a cell, are not seen.
    plain = np.asarray((seen.plane("enemy") > 0).sum(axis=1)) == enemies
    assert plain.sum() > 100
    np.testing.assert_array_equal(usable[plain], mask[plain][:, FIRST_PROGRAM:])
    assert (usable == (ready & owned)).all()
    assert (affordable | ~ready).all()
    assert usable.any(axis=0).sum() > 15  # the positions use most programs


def test_precomputed_features_are_the_same_bits():
    recorded = load("deterministic").before
    some = np.random.default_rng(1).permutation(len(recorded["player"]))[:200]
    games = from_arrays(CONFIG, rows(recorded, some))
    seen, features, numbers, _ = look(games)
    kept = jax.jit(jax.vmap(TACTICAL.spec.precompute))(seen)
    assert jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), kept) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), TACTICAL.spec.stored
    )
    # The features of other positions would follow from their `known` alone.
    moved = replace(kept, known=jax.tree.map(lambda leaf: leaf[::-1], kept.known))
    again, others = jax.jit(jax.vmap(TACTICAL.spec.encode)), TACTICAL_ACTIONS.numbers
    jax.tree.map(np.testing.assert_array_equal, again(kept), features)
    np.testing.assert_array_equal(jax.jit(jax.vmap(others))(kept), numbers)
    assert (again(moved).grid != features.grid).any()


def test_the_clock_is_remembered():
    given = position(turn=4, programs=[Program.UNDO], scheduled_task_interval=9,
                     next_scheduled_task_turn=7, pending_siphon_transmissions=3,
                     step_active=1, atk_plus_uses_this_stage=2)  # fmt: skip
    seen, _, _, _ = look(from_arrays(CONFIG, given))
    assert np.asarray(seen.memory[0]).tolist() == [0] * 7 + [3, 9, 3, 1, 2]


def test_snapshots_are_remembered_newest_first():
    game = jax.tree.map(
        lambda leaf: leaf[0], from_arrays(CONFIG, position(programs=[Program.UNDO, Program.HACK]))
    )
    yes, no = jnp.bool_(True), jnp.bool_(False)

    @jax.jit
    def pushed(history, hp):
        player = replace(game.position.player, hp=hp, credits=10 * hp)
        here = replace(game.position, player=player)
        return remember(history, here, push=yes, pop=no)

    small = GameConfig(max_enemies=40, max_transmissions=40, history=2)
    history = empty_history(small, game.position)
    assert not recall(history).held
    for hp in (3, 1, 2):  # one more than there is room for
        history = pushed(history, jnp.int32(hp))
    newest, second = recall(history), recall(history, back=1)
    assert [int(past.player.hp) for past in (newest, second)] == [2, 1]
    assert [int(past.player.credits) for past in (newest, second)] == [20, 10]
    assert int(newest.programs) == (1 << Program.UNDO) | (1 << Program.HACK)
    popped = remember(history, game.position, push=no, pop=yes)
    assert int(recall(popped).player.hp) == 1
    assert not recall(popped, back=1).held
    assert int(recall(popped, back=1).player.hp) == 0


def test_the_environment_shows_it_and_remembers_until_the_episode_ends():
    environment = HackMatrix(observation="tactical", max_steps=3)
    reset, step = jax.jit(environment.reset), jax.jit(environment.step)
    observe = jax.jit(jax.vmap(environment.observe))
    keys = env_keys(jax.random.key(0), 8)
    state, timestep = reset(keys)
    assert isinstance(timestep.observation, CompactObservation)
    counts = []
    for number in range(4):
        moves = jnp.argmax(timestep.mask, axis=1).astype(jnp.int32)
        state, timestep = step(state, moves, jax.vmap(jax.random.fold_in, (0, None))(keys, number))
        again = observe(state.games)
        jax.tree.map(np.testing.assert_array_equal, again, timestep.observation)
        counts.append(np.asarray(timestep.observation.memory[:, Memory.SNAPSHOTS]))
        last = np.asarray(timestep.last_observation.memory[:, Memory.SNAPSHOTS])
    assert (counts[0] == 1).all()
    assert (counts[1] == 2).all()
    assert (counts[2] == 0).all()  # a new game
    assert (last == counts[3]).all()


def test_a_rollout_keeps_what_is_precomputed():
    policy = build_network("cells", TACTICAL.spec, key=jax.random.key(0))

    def rollout(precompute):
        collect = RolloutCollector(2, precompute=precompute)
        collector_state = eqx.filter_eval_shape(collect.start, policy, TACTICAL, env_keys(KEY, 3))
        return eqx.filter_eval_shape(collect, policy, TACTICAL, collector_state)[0].observation

    kept, plain = rollout(True), rollout(False)
    assert plain.known is None
    stored = jax.tree.map(lambda leaf: (2, 3, *leaf.shape), TACTICAL.spec.stored)
    assert jax.tree.map(lambda leaf: leaf.shape, kept) == stored


def test_a_siphon_takes_what_its_cross_holds_but_nothing_twice():
    found = planes(player=(0, 0), cells=CROSS, programs=[Program.PUSH])
    center = {name: at(found[name], (2, 2))[0] for name in SIPHONED}
    assert center == {
        "points": 7, "programs": 1, "credits": 3, "energy": 0, "spawns": 14, "questions": 1,
        "undo": 1,
    }  # fmt: skip
    assert at(found["energy"], (4, 4), (4, 3), (3, 3)) == [2, 2, 0]
    assert at(found["points"], (2, 1), (2, 0)) == [0, 7]  # nobody stands on a block
    programs, _, _ = flat_parts(player=(2, 2), cells=CROSS, programs=[Program.PUSH])
    assert np.flatnonzero(programs[3]).tolist() == [Program.UNDO], "an owned one is not taken again"
    cells = {cell: {**what, "siphoned": 1} for cell, what in CROSS.items()}
    cells[2, 2] |= {"siphon_center": 1, "credits": 0}
    found = planes(player=(0, 0), cells=cells)
    for name in ("points", "programs", "credits", "spawns", "questions", "undo"):
        assert not found[name].any(), name
