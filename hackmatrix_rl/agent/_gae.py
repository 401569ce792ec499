"""Advantage estimation: how much better an action was than the policy expected."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent._rollout import Rollout
from hackmatrix_rl.agent._schedules import Scheduled, ends_of, number_of
from hackmatrix_rl.agent._value_scale import IDENTITY_SCALE, ValueScale


class Targets(eqx.Module):
    """Targets of the loss, all in units of reward."""

    advantage: Float32[Array, "num_steps num_envs"]  #: Advantage of the action.
    value: Float32[Array, "num_steps num_envs"]  #: The network's value, in units of reward.
    #: The value to learn: `advantage + value` in `GAE`.
    value_target: Float32[Array, "num_steps num_envs"]

    def explained_variance(self) -> Float32[Array, ""]:
        """The fraction of the variance of the value targets that the values explain.

        It is 1 for perfect values, 0 for a constant value, and negative for worse values.
        """
        left = jnp.var(self.value_target - self.value)
        return 1.0 - left / jnp.maximum(jnp.var(self.value_target), 1e-8)


class AdvantageEstimator(eqx.Module):
    """Estimates the advantage of each action of a rollout. `GAE` is an example of a subclass."""

    @abstractmethod
    def __call__(self, rollout: Rollout, value_scale: ValueScale = IDENTITY_SCALE) -> Targets:
        """Advantages and value targets of a rollout with values in the units of `value_scale`."""


class GAE(AdvantageEstimator):
    """Generalised advantage estimation.

    A truncated episode bootstraps from the value of the position before the reset. A terminated
    episode does not bootstrap. No advantage crosses the end of an episode.

    Source: Schulman et al. 2016, "High-dimensional continuous control using generalized
    advantage estimation"; Pardo et al. 2018, "Time limits in reinforcement learning".

    Attributes:
        gamma: discount factor: the weight of a reward one step later; a number or a schedule (see
            `resolve_schedules`).
        gae_lambda: interpolates between one-step TD errors (0) and Monte Carlo returns (1).
    """

    gamma: Scheduled = 0.99
    gae_lambda: float | Float32[Array, ""] = 0.95

    def __check_init__(self) -> None:
        for name in ("gamma", "gae_lambda"):
            for number in ends_of(getattr(self, name)):
                if not 0 <= number <= 1:
                    raise ValueError(f"{name} must be in [0, 1], not {number}")

    def __call__(self, rollout: Rollout, value_scale: ValueScale = IDENTITY_SCALE) -> Targets:
        value = value_scale.denormalize(rollout.value)
        last_value = value_scale.denormalize(rollout.last_value)
        bootstrap_value = value_scale.denormalize(rollout.bootstrap_value)

        next_value = jnp.concatenate([value[1:], last_value[None]])
        next_value = jnp.where(rollout.truncated, bootstrap_value, next_value)
        next_value = jnp.where(rollout.terminated, 0.0, next_value)
        gamma = number_of(self.gamma)
        delta = rollout.reward + gamma * next_value - value
        trace = jnp.where(rollout.done, 0.0, gamma * self.gae_lambda)

        def step(
            later: Float32[Array, " num_envs"],
            inputs: tuple[Float32[Array, " num_envs"], Float32[Array, " num_envs"]],
        ) -> tuple[Float32[Array, " num_envs"], Float32[Array, " num_envs"]]:
            delta, trace = inputs
            advantage = delta + trace * later
            return advantage, advantage

        start = jnp.zeros_like(last_value)
        _, advantage = jax.lax.scan(step, start, (delta, trace), reverse=True)
        return Targets(advantage=advantage, value=value, value_target=advantage + value)
