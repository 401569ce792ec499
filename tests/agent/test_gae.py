import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent.builders import random_rollout, rollout
from hackmatrix_rl.agent import GAE, IDENTITY_SCALE, AdvantageEstimator, RunningScale, Targets
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.training import Trainer

pytestmark = pytest.mark.smoke


def plain_advantages(r, gamma, gae_lambda):
    """The definition, one environment and one step after another, in Python floats."""
    num_steps, num_envs = r.reward.shape
    advantage = np.zeros((num_steps, num_envs))
    for env in range(num_envs):
        for start in range(num_steps):
            weight = 1.0
            for step in range(start, num_steps):
                if r.terminated[step, env]:
                    following = 0.0
                elif r.truncated[step, env]:
                    following = float(r.bootstrap_value[step, env])
                elif step + 1 < num_steps:
                    following = float(r.value[step + 1, env])
                else:
                    following = float(r.last_value[env])
                surprise = (
                    float(r.reward[step, env]) + gamma * following - float(r.value[step, env])
                )
                advantage[start, env] += weight * surprise
                if r.terminated[step, env] or r.truncated[step, env]:
                    break
                weight *= gamma * gae_lambda
    return advantage


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_advantages_are_those_of_plain_python(seed, gamma, gae_lambda):
    r = random_rollout(seed)
    targets = GAE(gamma, gae_lambda)(r)
    expected = plain_advantages(r, gamma, gae_lambda)
    np.testing.assert_allclose(targets.advantage, expected, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(targets.value_target, expected + r.value, rtol=1e-5, atol=3e-5)


def test_values_are_taken_in_the_units_of_the_network():
    scale = RunningScale().update(jnp.array([0.0, 20.0], jnp.float32))
    r = random_rollout(3)
    in_reward_units = rollout(
        r.reward,
        r.value * 10 + 10,
        terminated=r.terminated,
        truncated=r.truncated,
        bootstrap=r.bootstrap_value * 10 + 10,
        last=r.last_value * 10 + 10,
    )
    np.testing.assert_allclose(
        GAE()(r, scale).advantage, GAE()(in_reward_units).advantage, rtol=1e-4, atol=1e-4
    )


def test_explained_variance():
    r = random_rollout(4)
    targets = GAE()(r)
    unexplained = np.var(targets.value_target - r.value) / np.var(targets.value_target)
    assert targets.explained_variance() == pytest.approx(float(1 - unexplained), rel=1e-3)


class MonteCarlo(AdvantageEstimator):
    """The example that docs/architecture.md promises: an estimator of your own is one call."""

    def __call__(self, rollout, value_scale=IDENTITY_SCALE):
        returns = jax.lax.associative_scan(jnp.add, rollout.reward, reverse=True)
        value = value_scale.denormalize(rollout.value)
        return Targets(advantage=returns - value, value=value, value_target=returns)


def test_another_estimator_is_used_by_the_trainer():
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=4, depth=1, key=jax.random.key(0))
    trainer = Trainer(PPO(environment, policy, gae=MonteCarlo(), num_envs=4, num_steps=4))
    assert trainer.algorithm.estimate == MonteCarlo()
    with pytest.raises(TypeError, match="abstract"):
        AdvantageEstimator()
