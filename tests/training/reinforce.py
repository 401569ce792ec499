"""A second algorithm, as small as can be, for tests of what runs any algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hackmatrix_rl.agent import MaskedCategorical, RolloutCollector
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.env import Environment, env_keys
from hackmatrix_rl.training import Algorithm, AlgorithmState, Counter, Metrics
from hackmatrix_rl.training.sharding import replicated_shardings, single_device

OPTIMIZER = optax.adam(0.02)


class ReinforceState(AlgorithmState):
    """The policy and its optimizer, the games, and the counters."""

    policy: eqx.Module
    moments: optax.OptState
    games: eqx.Module
    update: jax.Array
    env_steps: Counter


class Reinforce(Algorithm[ReinforceState]):
    """Williams 1992: each action's log-probability is raised by the return that followed it."""

    environment: Environment
    initial_policy: ActorCritic
    collect: RolloutCollector
    num_envs: int = eqx.field(static=True)
    gamma: float = eqx.field(static=True, default=0.95)
    mesh: jax.sharding.Mesh = eqx.field(static=True, default_factory=single_device)

    @property
    def steps_per_update(self):
        return self.num_envs * self.collect.num_steps

    @property
    def resettable(self):
        return ("games",)

    def init(self, key, policy):
        return ReinforceState(
            policy=policy,
            moments=OPTIMIZER.init(parameters_of(policy)),
            games=self.collect.start(policy, self.environment, env_keys(key, self.num_envs)),
            update=jnp.zeros((), jnp.int32),
            env_steps=Counter.of(0),
        )

    def __call__(self, state):
        rollout, games = self.collect(state.policy, self.environment, state.games)

        def back(later, step):
            reward, done = step
            now = reward + self.gamma * jnp.where(done, 0.0, later)
            return now, now

        start = jnp.zeros(self.num_envs)
        _, returns = jax.lax.scan(back, start, (rollout.reward, rollout.done), reverse=True)
        weight = returns - jnp.mean(returns)

        @eqx.filter_value_and_grad
        def loss(policy):
            logits, _, _ = jax.vmap(jax.vmap(policy, in_axes=(0, None)), in_axes=(0, None))(
                rollout.observation, policy.initial_carry()
            )
            chances = MaskedCategorical(logits, rollout.mask)
            return -jnp.mean(weight * chances.log_prob(rollout.action))

        value, gradient = loss(state.policy)
        with jax.numpy_dtype_promotion("standard"):
            change, moments = OPTIMIZER.update(gradient, state.moments)
        after = ReinforceState(
            policy=eqx.apply_updates(state.policy, change),
            moments=moments,
            games=games,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
        )
        return after, {"loss": value, "episodes": rollout.episodes}

    def metrics(self, report, dispatch):
        ended = int(report["episodes"].count)
        total, length = report["episodes"].total_reward, report["episodes"].length
        means = {"return": float(total) / ended, "length": float(length) / ended} if ended else {}
        return Metrics(
            env_steps=dispatch.env_steps,
            updates=dispatch.updates,
            seconds=dispatch.seconds,
            steps_per_second=dispatch.count * self.steps_per_update / max(dispatch.seconds, 1e-9),
            episodes=ended,
            episode=means,
            learning={"loss": float(report["loss"]) / dispatch.count},
        )

    def policy(self, state):
        return state.policy

    def value_scale_of(self, state):
        return None

    def shardings(self, state):
        return replicated_shardings(self.mesh, state)
