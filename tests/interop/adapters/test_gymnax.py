"""gymnax's games in this package, and this package's in gymnax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, invoke

import hackmatrix_rl as hm
from hackmatrix_rl.env import picture_of

gymnax = pytest.importorskip("gymnax")
pytestmark = pytest.mark.usefixtures("lenient")


@pytest.fixture
def lenient():
    """gymnax relies on JAX's default promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("name", ["CartPole-v1", "Breakout-MinAtar", "Catch-bsuite"])
def test_an_environment_of_gymnax_keeps_the_contract(name):
    hm.check_environment(hm.from_gymnax(name), steps=60)


def test_the_steps_are_those_of_gymnax():
    environment = hm.from_gymnax("CartPole-v1")
    game, params = gymnax.make("CartPole-v1")
    keys = jax.random.split(jax.random.key(4), 3)
    state, timestep = environment.reset(keys)
    for row, key in enumerate(keys):
        seen, mine = game.reset_env(key, params)
        np.testing.assert_allclose(timestep.observation[row], seen)
        after, *_ = game.step_env(key, mine, 1, params)
        _, stepped = environment.step(state, jnp.ones(3, jnp.int32), keys)
        np.testing.assert_allclose(stepped.observation[row], after, rtol=1e-6)


def test_its_limit_truncates():
    _, params = gymnax.make("CartPole-v1")
    short = hm.from_gymnax("CartPole-v1", params.replace(max_steps_in_episode=4))
    keys = jax.random.split(jax.random.key(0), 2)
    state, _ = short.reset(keys)
    for number in range(4):
        state, timestep = short.step(state, jnp.full(2, number % 2, jnp.int32), keys)
    assert timestep.truncated.tolist() == [True, True]
    assert not timestep.terminated.any()
    assert not np.allclose(timestep.observation, timestep.last_observation)


def test_real_actions_are_a_box():
    environment = hm.from_gymnax("Pendulum-v1", max_steps=4)
    assert environment.spec.actions == hm.Box((-2.0,), (2.0,))
    hm.check_environment(environment, steps=10)


def test_what_needs_a_list_of_actions_refuses_them_before_compiling():
    train = ("train", "--env", "gymnax:Pendulum-v1", "--dry-run")
    said = "R2D2 needs Discrete actions, and this environment has Box((-2.0,), (2.0,))"
    assert_refused(invoke(*train, "--algorithm", "r2d2"), said)
    assert_refused(invoke(*train, "--network", "transformer"), "--network transformer")


def test_what_it_cannot_play_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'CartPole'; the nearest is CartPole-v1; it has .*Catch"):
        hm.from_gymnax("CartPole")
    unbounded = gymnax.make("Pendulum-v1")[1].replace(max_torque=jnp.inf)
    with pytest.raises(ValueError, match=r"actions are Box\(.*: low\[0\] is -inf; expected a fin"):
        hm.from_gymnax("Pendulum-v1", unbounded)
    with pytest.raises(ValueError, match="does not separate truncation from termination"):
        hm.from_gymnax(object())
    with pytest.raises(ValueError, match=r"size: settings are for gymnax\.make"):
        hm.from_gymnax(gymnax.make("CartPole-v1")[0], size=3)
    for name in ("num_envs", "name", "params"):
        given = ("--env", "gymnax:CartPole-v1", "--env-args", f"{name}=3")
        assert_refused(invoke("train", *given, "--dry-run"), f"--env-args {name}=3", name)


def test_hackmatrix_runs_in_gymnax():
    environment, params = hm.to_gymnax()
    reset, step = jax.jit(environment.reset), jax.jit(environment.step)
    seen, state = reset(jax.random.key(1), params)
    assert seen.shape == environment.observation_space(params).shape == (1545,)
    assert environment.action_space(params).n == 28
    mask = environment.action_mask(state)
    legal, illegal = int(jnp.argmax(mask)), int(jnp.argmin(mask))
    after, state, _, terminated, truncated, info = step(jax.random.key(2), state, legal, params)
    assert not terminated
    assert not truncated
    np.testing.assert_array_equal(info["action_mask"], environment.action_mask(state))
    assert after.shape == seen.shape
    if illegal in np.flatnonzero(~np.asarray(info["action_mask"])):
        assert step(jax.random.key(3), state, illegal, params)[3]


def test_gymnax_limits_its_steps():
    environment, params = hm.to_gymnax()
    params = params.replace(max_steps_in_episode=1)
    _, state = environment.reset(jax.random.key(1), params)
    legal = int(jnp.argmax(environment.action_mask(state)))
    *_, terminated, truncated, _ = jax.jit(environment.step)(
        jax.random.key(2), state, legal, params
    )
    assert (bool(terminated), bool(truncated)) == (False, True)


def test_a_game_for_gymnax_is_a_single_game():
    with pytest.raises(TypeError, match="game"):
        hm.to_gymnax(hm.CartPole())


@pytest.mark.parametrize(("name", "drawn"), [("Catch-bsuite", True), ("CartPole-v1", False)])
def test_the_figures_of_gymnax_are_pictures(name, drawn):
    environment = hm.from_gymnax(name)
    state, _ = environment.reset(jax.random.split(jax.random.key(0), 1))
    picture = picture_of(environment, state)
    assert (None if picture is None else picture.shape) == ((480, 640, 3) if drawn else None)
    assert environment.title == name
