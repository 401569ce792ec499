"""The scripted players do what they are said to, and play as well as in the original game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game.statistics import SIGNIFICANCE, compare, deviations

from hackmatrix_rl.env import CELL, CompactObservation, HackMatrix, Number, Sight
from hackmatrix_rl.evaluation import RandomAgent, Runner, evaluate_all
from hackmatrix_rl.game import NUM_ACTIONS, GameConfig

DRAWS = 4000
UP, DOWN, LEFT, RIGHT, SIPHON = range(5)

ORIGINAL = {
    "random": {"return": -3.29, "length": 43.0, "stage": (16_635, 3_149, 209)},
    "runner": {"return": 0.471, "length": 38.1, "stage": (1_157, 5_075, 7_979, 4_549, 1_131)},
}
"""20,000 games of the original: mean return, mean length, games that ended in stage 1, 2, ..."""

ORIGINAL_GAMES = 20_000


def seen(player, exit_cell, *, blocks=(), enemies=()):
    """A compact observation with nothing else on the board."""
    numbers = np.zeros(len(Number), np.int32)
    numbers[[Number.ROW, Number.COL]] = player
    grid = np.zeros((6, 6), np.uint32)
    grid[exit_cell] = Sight.EXIT << CELL["content"].shift
    for cell in blocks:
        grid[cell] = Sight.DATA << CELL["content"].shift
    for cell in enemies:
        grid[cell] |= 1 << CELL["enemy"].shift
    return CompactObservation(jnp.asarray(numbers), jnp.uint32(0), jnp.asarray(grid.reshape(36)))


def legal(*actions):
    return jnp.zeros(NUM_ACTIONS, bool).at[jnp.array(actions, int)].set(True)


def frequencies(player, observation, mask):
    """How often each action is taken, over many keys."""

    def act(key):
        return player.act(observation, mask, player.initial_carry(), key=key)[0]

    actions = jax.jit(jax.vmap(act))(jax.random.split(jax.random.key(0), DRAWS))
    return np.bincount(np.asarray(actions), minlength=NUM_ACTIONS) / DRAWS


def assert_near(got, expected):
    """Within 4.5 standard deviations of a frequency: 28 actions, one false alarm in 5,000."""
    want = np.zeros(NUM_ACTIONS)
    for action, chance in expected.items():
        want[action] = chance
    assert (np.abs(got - want) <= 4.5 * np.sqrt(want * (1 - want) / DRAWS)).all(), got


def test_random_takes_every_legal_action_alike():
    got = frequencies(RandomAgent(), seen((0, 0), (5, 5)), legal(UP, SIPHON, 20, 27))
    assert_near(got, {UP: 1 / 4, SIPHON: 1 / 4, 20: 1 / 4, 27: 1 / 4})


@pytest.mark.parametrize("player", [RandomAgent(), Runner()])
def test_no_legal_action_gives_some_action(player):
    got = frequencies(player, seen((2, 2), (5, 5)), legal())
    assert got[UP] == 1


def test_the_runner_takes_the_shorter_way_round():
    wall = [(1, 0), (1, 1), (1, 2), (1, 3)]
    got = frequencies(Runner(), seen((0, 1), (5, 0), blocks=wall), legal(LEFT, RIGHT))
    assert_near(got, {RIGHT: 0.85 + 0.15 / 2, LEFT: 0.15 / 2})


def test_the_runner_breaks_ties_by_lot():
    got = frequencies(Runner(), seen((0, 0), (5, 5)), legal(UP, RIGHT, SIPHON))
    assert_near(got, {UP: 0.85 / 2 + 0.05, RIGHT: 0.85 / 2 + 0.05, SIPHON: 0.05})


def test_the_runner_steps_onto_the_exit():
    got = frequencies(Runner(), seen((4, 5), (5, 5)), legal(UP, DOWN, LEFT))
    assert_near(got, {UP: 0.9, DOWN: 0.05, LEFT: 0.05})


def test_the_runner_fights_first_in_direction_order():
    beside = [(1, 2), (2, 1), (2, 3)]
    got = frequencies(Runner(), seen((2, 2), (5, 5), enemies=beside), legal(UP, DOWN, LEFT, RIGHT))
    assert_near(got, {DOWN: 0.85 + 0.15 / 4, UP: 0.15 / 4, LEFT: 0.15 / 4, RIGHT: 0.15 / 4})


def test_the_runner_hits_an_enemy_on_a_block():
    got = frequencies(
        Runner(), seen((0, 0), (5, 5), blocks=[(0, 1)], enemies=[(0, 1)]), legal(UP, RIGHT)
    )
    assert_near(got, {RIGHT: 0.85 + 0.075, UP: 0.075})


def test_the_runner_takes_anything_where_no_way_leads_to_the_exit():
    wall = [(5, 4), (4, 5)]
    got = frequencies(Runner(), seen((0, 0), (5, 5), blocks=wall), legal(UP, RIGHT, SIPHON))
    assert_near(got, {UP: 1 / 3, RIGHT: 1 / 3, SIPHON: 1 / 3})


def test_the_runner_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="observation='compact'"):
        Runner().act(jnp.zeros(4), legal(UP), (), key=jax.random.key(0))


def assert_as_the_original(games, *, seed):
    """Mean return and length, and the stages reached, within the sampling error of both."""
    environment = HackMatrix(GameConfig(max_enemies=40, max_transmissions=40, history=16))
    players = {"random": RandomAgent(), "runner": Runner()}
    found = evaluate_all(
        players, environment, episodes=games, key=jax.random.key(seed), num_envs=min(games, 2048)
    )
    # Two-sided, one false alarm in 1,000 over the four means together.
    sigmas = 3.7
    for name, evaluation in found.items():
        assert evaluation.unfinished == 0
        assert not evaluation.values["dropped"].any()
        for number in ("return", "length"):
            values = evaluation.values[number].astype(np.float64)
            error = values.std() * np.sqrt(1 / games + 1 / ORIGINAL_GAMES)
            rounding = {"return": 0.005, "length": 0.05}[number]
            off = abs(values.mean() - ORIGINAL[name][number]) - rounding
            assert off <= sigmas * error, f"{name}: {number} {values.mean()} +- {error}"

    tables = []
    for name, evaluation in found.items():
        stages = ORIGINAL[name]["stage"]
        expected = np.array([*stages, ORIGINAL_GAMES - sum(stages)])
        reached = np.minimum(evaluation.values["stage"].astype(int), len(expected))
        got = np.bincount(reached - 1, minlength=len(expected))
        tables.append(compare(f"{name}: stage reached", "all", expected, got))
    lines = deviations(tables, SIGNIFICANCE)
    assert not lines, lines


@pytest.mark.nightly
def test_whole_games_go_as_in_the_original():
    assert_as_the_original(512, seed=0)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_whole_games_go_as_in_the_original(seed):
    assert_as_the_original(20_000, seed=seed)
