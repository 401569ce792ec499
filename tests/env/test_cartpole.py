import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.env import CartPole, env_keys
from hackmatrix_rl.env._cartpole import CartPoleState

pytestmark = pytest.mark.smoke


def at(*rows, length=0):
    physics = jnp.asarray(rows, jnp.float32)
    return CartPoleState(physics, jnp.full((len(rows),), length, jnp.int32))


def step(state, actions, environment=None):
    keys = env_keys(jax.random.key(7), len(actions))
    return (environment or CartPole()).step(state, jnp.asarray(actions, jnp.int32), keys)


def test_the_first_push_is_that_of_gym_and_gravity_pulls_a_leaning_pole_over():
    _, timestep = step(at([0, 0, 0, 0], [0, 0, 0, 0]), [1, 0])
    expected = np.array([0.0, 0.19512195, 0.0, -0.29268293])
    np.testing.assert_allclose(timestep.observation[0], expected, atol=1e-6)
    np.testing.assert_allclose(timestep.observation[1], -expected, atol=1e-6)
    _, timestep = step(at([0, 0, 0.1, 0]), [0])
    _, other = step(at([0, 0, 0.1, 0]), [1])
    drift = (timestep.observation[0, 3] + other.observation[0, 3]) / 2
    assert drift == pytest.approx(0.02 * 9.8 * np.sin(0.1) / (0.5 * (4 / 3 - 0.1 / 1.1)), rel=0.02)


@pytest.mark.parametrize("fallen", [[2.399, 1.0, 0, 0], [0, 0, 0.2094, 1.0], [-2.4, -1, 0, 0]])
def test_a_fall_terminates_and_the_next_episode_is_shown(fallen):
    state, timestep = step(at(fallen, [0, 0, 0, 0], length=9), [1, 1])
    np.testing.assert_array_equal(timestep.terminated, [True, False])
    assert not timestep.truncated.any()
    assert jnp.abs(timestep.observation[0]).max() <= 0.05
    assert jnp.abs(timestep.last_observation[0]).max() > 0.2
    np.testing.assert_array_equal(timestep.last_observation[1], timestep.observation[1])
    np.testing.assert_array_equal(state.length, [0, 10])
    assert timestep.episode.total_reward[0] == 10
    assert timestep.episode.length[0] == 10


def test_the_limit_truncates_and_episodes_start_near_upright_and_differ():
    _, timestep = step(at([0, 0, 0, 0], [0, 0, 0, 0], length=499), [1, 0])
    assert timestep.truncated.all()
    assert not timestep.terminated.any()
    assert (timestep.episode.total_reward == 500).all()
    _, timestep = CartPole().reset(env_keys(jax.random.key(0), 50))
    assert jnp.abs(timestep.observation).max() <= 0.05
    assert len(np.unique(timestep.observation[:, 0])) == 50
    assert timestep.mask.all()
    assert not timestep.done.any()
