"""Environments of Brax in this package."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, invoke

import hackmatrix_rl as hm

# They say that they are no longer maintained.
pytestmark = [
    pytest.mark.filterwarnings("ignore:JAXopt"),
    pytest.mark.filterwarnings("ignore:Brax System"),
]


def test_an_environment_of_brax_keeps_the_contract():
    pytest.importorskip("brax")
    environment = hm.from_brax("fast", max_steps=3)
    assert environment.spec.actions == hm.Box((-1.0,), (1.0,))
    assert environment.title == "fast"
    hm.check_environment(environment, steps=6)
    keys, step = jax.random.split(jax.random.key(0), 2), jax.jit(environment.step)
    state, _ = environment.reset(keys)
    actions = jnp.asarray([[1.0], [-1.0]])
    for _ in range(3):
        state, timestep = step(state, actions, keys)
    # Its position after three steps of 0.02 s, whose speed grows by 0.02 in each if it acts.
    np.testing.assert_allclose(timestep.reward, [0.02 * (0.02 + 0.04 + 0.06), 0.0], rtol=1e-5)
    assert timestep.truncated.tolist() == [True, True]
    assert not timestep.terminated.any()


class Meddling:
    """Changes the metrics that it is given, as Brax's `ant` does."""

    action_size = 1

    def reset(self, key):
        from brax.envs import State

        zero = jnp.zeros(())
        return State(None, jnp.zeros(1), zero, zero, {"survived": zero})

    def step(self, state, action):
        state.metrics.update(survived=1.0)
        return state.replace(obs=action, reward=state.metrics["survived"] + action[0])


def test_an_environment_may_change_the_metrics_that_it_is_given():
    pytest.importorskip("brax")
    environment = hm.from_brax(Meddling(), max_steps=3)
    hm.check_environment(environment, steps=6)
    keys = jax.random.split(jax.random.key(0), 1)
    state, _ = environment.reset(keys)
    _, timestep = environment.step(state, jnp.ones((1, 1)), keys)
    assert timestep.reward.tolist() == [2.0]


def test_an_environment_of_mujoco_playground_steps():
    pytest.importorskip("mujoco_playground")
    environment = hm.from_mjx("CartpoleBalance", impl="jax", max_steps=2)
    assert environment.spec.actions == hm.Box((-1.0,), (1.0,))
    keys = jax.random.split(jax.random.key(0), 2)

    @jax.jit
    def play(keys):
        state, _ = environment.reset(keys)

        def step(state, _):
            return environment.step(state, jnp.zeros((2, 1)), keys)

        return jax.lax.scan(step, state, length=2)[1]

    timestep = play(keys)
    assert ((timestep.reward > 0.99) & (timestep.reward < 1)).all()  # it starts almost upright
    assert timestep.truncated.tolist() == [[False, False], [True, True]]


def test_what_brax_does_not_have_is_refused_by_name():
    pytest.importorskip("brax")
    with pytest.raises(ValueError, match=r"no environment 'halfchetah'; the nearest is halfcheet"):
        hm.from_brax("halfchetah")
    with pytest.raises(ValueError, match=r"brax cannot make it: .*backend"):
        hm.from_brax("inverted_pendulum", backend="none")


@pytest.mark.parametrize(
    ("env", "package"), [("brax:ant", "brax.envs"), ("mjx:CartpoleBalance", "mujoco_playground")]
)
def test_a_missing_package_is_named(monkeypatch, env, package):
    monkeypatch.setitem(sys.modules, package, None)
    extra = env.partition(":")[0]
    assert_refused(invoke("train", "--env", env, "--dry-run"), package, f"pip install '.[{extra}]'")
