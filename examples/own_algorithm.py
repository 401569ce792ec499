"""A custom algorithm: REINFORCE on CartPole. docs/own_algorithm.md explains each part.

With a FILE, the same command resumes a training that was killed; its final state has the same bits.

python own_algorithm.py [STEPS [FILE]]
"""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32

import hackmatrix_rl as hm
from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.precision import FLOAT32
from hackmatrix_rl.training.sharding import replicated_shardings, single_device


def discounted_returns(rollout: agent.Rollout, gamma: Float32[Array, ""]) -> agent.Targets:
    """Monte Carlo returns; the baseline of a step is their mean over the environments."""

    def step(next_return: Float32[Array, " num_envs"], inputs):
        reward, done = inputs
        return (reward + gamma * jnp.where(done, 0.0, next_return),) * 2  # carry, output

    start, inputs = jnp.zeros_like(rollout.reward[0]), (rollout.reward, rollout.done)
    _, returns = jax.lax.scan(step, start, inputs, reverse=True)  # [num_steps, num_envs]
    advantage = returns - jnp.mean(returns, axis=1, keepdims=True)
    return agent.Targets(advantage=advantage, value=rollout.value, value_target=returns)


def policy_gradient_loss(policy, batch: hm.Batch) -> tuple[Float32[Array, ""], dict[str, Array]]:
    """The mean of `-advantage * log_prob`, whose gradient is the negative policy gradient."""
    logits, _ = policy.unroll(batch.observation, batch.initial_carry, batch.done)
    pi = hm.MaskedCategorical(logits, batch.mask)
    loss = -jnp.mean(batch.advantage * pi.log_prob(batch.action))
    return loss, {"policy_loss": loss, "entropy": jnp.mean(pi.entropy())}


class ReinforceState(training.AlgorithmState):
    learner: training.Learner
    collector_state: agent.CollectorState
    update: Int32[Array, ""]
    env_steps: training.Counter


class Reinforce(training.Algorithm[ReinforceState]):
    """REINFORCE (Williams 1992): one gradient step on each rollout."""

    environment: hm.Environment
    initial_policy: hm.ActorCritic
    collect: hm.RolloutCollector = hm.RolloutCollector(128)
    num_envs: int = eqx.field(static=True, default=32)
    gamma: training.Schedule = training.Constant(0.98)
    learning_rate: training.Schedule = training.Constant(0.01)
    optimizer: optax.GradientTransformation = eqx.field(static=True, default=training.adam())
    grad_accum: int = eqx.field(static=True, default=1)
    mesh: jax.sharding.Mesh = eqx.field(static=True, default_factory=single_device)
    reinit_fields = ("collector_state",)

    @property
    def step(self):
        return training.GradientStep(self.optimizer, FLOAT32, self.mesh, self.grad_accum)

    @property
    def steps_per_update(self):
        return self.num_envs * self.collect.num_steps

    def init(self, key, policy):
        learner = self.step.init(policy, agent.IDENTITY_SCALE)
        keys = jax.random.split(key, self.num_envs)
        games = self.collect.start(policy, self.environment, keys)
        return ReinforceState(learner, games, jnp.zeros((), jnp.int32), training.Counter())

    def __call__(self, state):
        learner, now = state.learner, state.env_steps.as_float()
        rollout, games = self.collect(learner.policy, self.environment, state.collector_state)
        batch = hm.Batch.from_rollout(rollout, discounted_returns(rollout, self.gamma(now)))
        gradient, losses, _ = self.step.gradient(learner, policy_gradient_loss, batch)
        rate, always = self.learning_rate(now), jnp.array(True)
        learner, learned = self.step.apply(learner, gradient, losses, rate, active=always)
        env_steps = state.env_steps.add(self.steps_per_update)
        after = ReinforceState(learner, games, state.update + 1, env_steps)
        return after, training.UpdateReport(rollout.episodes, learned, means={})

    def metrics(self, report, dispatch):
        return report.metrics(dispatch, batch=self.steps_per_update)

    def policy(self, state):
        return state.learner.policy

    def value_scale_of(self, state):
        return None

    def shardings(self, state):
        return replicated_shardings(self.mesh, state)


def main(steps: int, file: str | None = None) -> None:
    environment = hm.CartPole()
    policy = hm.MLPActorCritic(environment.spec, width=32, depth=1, key=jax.random.key(0))
    trainer = hm.Trainer(Reinforce(environment, policy), updates_per_dispatch=5)
    resumed = file is not None and Path(file).exists()
    if resumed:
        trainer.load(file)
    for metrics in trainer.train(steps, key=None if resumed else jax.random.key(1)):
        if file is not None:
            trainer.save(file)
        print(metrics.summary(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000, *sys.argv[2:3])
