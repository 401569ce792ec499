"""The scripted players do what they are said to, and play as well as in the original game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.statistics import SIGNIFICANCE, compare, deviations

from hackmatrix_rl.env import CELL, CompactObservation, HackMatrix, Number, Sight
from hackmatrix_rl.evaluation import RandomAgent, Runner, evaluate_all
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, GameConfig

pytestmark = pytest.mark.view

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


EXIT = (5, 5)
# Who plays, what is seen, the legal actions, and how often which of them is taken.
PLAYED = {
    "random: every legal action alike": (
        *(RandomAgent(), seen((0, 0), EXIT), (UP, SIPHON, 20, 27)),
        {UP: 1 / 4, SIPHON: 1 / 4, 20: 1 / 4, 27: 1 / 4},
    ),
    "random: no legal action": (RandomAgent(), seen((2, 2), EXIT), (), {UP: 1}),
    "runner: no legal action": (Runner(), seen((2, 2), EXIT), (), {UP: 1}),
    "the shorter way round": (
        *(Runner(), seen((0, 1), (5, 0), blocks=[(1, 0), (1, 1), (1, 2), (1, 3)]), (LEFT, RIGHT)),
        {RIGHT: 0.85 + 0.15 / 2, LEFT: 0.15 / 2},
    ),
    "ties by lot": (
        *(Runner(), seen((0, 0), EXIT), (UP, RIGHT, SIPHON)),
        {UP: 0.85 / 2 + 0.05, RIGHT: 0.85 / 2 + 0.05, SIPHON: 0.05},
    ),
    "onto the exit": (
        *(Runner(), seen((4, 5), EXIT), (UP, DOWN, LEFT)),
        {UP: 0.9, DOWN: 0.05, LEFT: 0.05},
    ),
    "it fights first, in the order of directions": (
        *(Runner(), seen((2, 2), EXIT, enemies=[(1, 2), (2, 1), (2, 3)])),
        *(
            (UP, DOWN, LEFT, RIGHT),
            {DOWN: 0.85 + 0.15 / 4} | dict.fromkeys((UP, LEFT, RIGHT), 0.0375),
        ),
    ),
    "an enemy on a block": (
        *(Runner(), seen((0, 0), EXIT, blocks=[(0, 1)], enemies=[(0, 1)]), (UP, RIGHT)),
        {RIGHT: 0.85 + 0.075, UP: 0.075},
    ),
    "anything where no way leads to the exit": (
        *(Runner(), seen((0, 0), EXIT, blocks=[(5, 4), (4, 5)]), (UP, RIGHT, SIPHON)),
        {UP: 1 / 3, RIGHT: 1 / 3, SIPHON: 1 / 3},
    ),
}


@pytest.mark.parametrize("name", PLAYED)
def test_a_script_takes_its_actions_as_often_as_it_is_said_to(name):
    player, observation, actions, expected = PLAYED[name]
    assert_near(frequencies(player, observation, legal(*actions)), expected)


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
