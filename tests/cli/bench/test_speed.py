"""Measuring speed: what is counted, in which order, and the environment it is compared with."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.cli.bench import compare_with_pgx
from hackmatrix_rl.cli.bench._environment_speed import (
    RandomPlay,
    RandomPlayState,
    in_turns,
    random_legal,
)
from hackmatrix_rl.env import CartPole, env_keys
from hackmatrix_rl.runs.config import make_config

pytestmark = pytest.mark.devices

GAMES = 16


@pytest.mark.parametrize("legal", [[1, 2, 4], [0, 15, 16, 17, 27]])
def test_random_legal_actions_are_uniform_over_the_legal_ones(legal):
    draws = 30_000
    mask = jnp.zeros(28, bool).at[jnp.array(legal)].set(True)
    keys = jax.random.split(jax.random.key(0), draws)
    counts = np.bincount(random_legal(jnp.tile(mask, (draws, 1)), keys), minlength=28)
    assert set(np.flatnonzero(counts)) == set(legal)
    share = 1 / len(legal)
    deviation = np.sqrt(draws * share * (1 - share))
    np.testing.assert_allclose(counts[legal], draws * share, atol=3.5 * deviation)


@pytest.fixture(scope="module")
def cartpole():
    """Play of CartPole on two devices."""
    environment = CartPole(max_steps=20)
    state, timestep = environment.reset(env_keys(jax.random.key(0), GAMES))
    seconds = iter(range(1000))
    return RandomPlay(
        environment,
        state,
        timestep.mask,
        mesh=hm.mesh("data=2"),
        clock=lambda: float(next(seconds)),
    )


def test_the_other_environment_is_compiled_as_jax_does_it(monkeypatch):
    given = {}

    class Told(Exception):
        pass

    def play(environment, *_, options, **__):
        given[type(environment)] = options
        if len(given) == 2:
            raise Told

    monkeypatch.setattr("hackmatrix_rl.cli.bench._benchmark.RandomPlay", play)
    config = make_config("debug", {"num_envs": 4, "mesh": "data=1"})
    with pytest.raises(Told):
        compare_with_pgx(config, repeats=1)
    assert given == {hm.HackMatrix: None, hm.Batched: {}}


def test_a_run_counts_every_game_and_goes_on_from_the_last(cartpole):
    assert cartpole.run(40) == 40 * GAMES  # in the one second between two looks at this clock
    once = cartpole.tally
    assert cartpole.run(10) == 10 * GAMES
    assert int(once.episodes) >= 2 * GAMES
    assert int(cartpole.tally.checksum) != int(once.checksum)
    assert cartpole.compile_seconds == 1


@pytest.mark.parametrize("part", ["observation", "mask", "reward"])
def test_the_checksum_depends_on_all_that_a_step_returns(part):
    _, timestep = CartPole().reset(env_keys(jax.random.key(0), GAMES))
    before = getattr(timestep, part)
    value = ~before[-1] if part == "mask" else before[-1] + 1
    other = eqx.tree_at(lambda t: getattr(t, part), timestep, before.at[-1].set(value))
    none = RandomPlayState(jnp.uint32(7), jnp.int32(0), jnp.int32(0))
    assert int(none.take(timestep).checksum) != int(none.take(other).checksum)


class Recorded(RandomPlay):
    """Notes when it is run."""

    def __init__(self, name, speed, runs):
        self.name, self.speed, self.runs, self.compile_seconds = name, speed, runs, 0.0

    def run(self, steps):
        self.runs.append(self.name)
        return self.speed * len(self.runs)


def test_two_plays_take_turns_and_neighbouring_runs_are_divided():
    runs = []
    plays = {name: Recorded(name, speed, runs) for name, speed in (("a", 3.0), ("b", 1.0))}
    speeds = in_turns(plays, steps=1, repeats=2)
    assert runs == ["a", "b"] * 3
    assert speeds["a"].steps_per_second == (9.0, 15.0)
    assert speeds["b"].steps_per_second == (4.0, 6.0)
    assert speeds["a"].ratios_to(speeds["b"]) == (9 / 4, 15 / 6)
