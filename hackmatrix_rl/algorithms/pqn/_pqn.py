"""PQN: an update collects a rollout, computes lambda-returns, and takes gradient steps."""

from dataclasses import replace
from typing import Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.env import (
    Environment,
    check_blocks,
    check_discrete,
    check_is_environment,
    check_own_shapes,
    env_keys,
)
from hackmatrix_rl.system.errors import instance
from hackmatrix_rl.training.sharding import ShardedCollector, devices_of_one

EPSILON = agent.Linear(1.0, 0.05, over=100_000)
"""The default probability of a random action."""


class PQN(training.LearnerAlgorithm[training.TrainState]):
    """Q-learning on rollouts of many environments, without a replay buffer or a target network.

    An update collects a rollout with epsilon-greedy actions, computes the lambda-returns of its
    steps, and minimizes the squared error of the Q-values on minibatches of full sequences. The
    returns are Peng's Q(lambda): `G = r + gamma * ((1 - q_lambda) * max Q' + q_lambda * G')`,
    with the maximum over the legal actions of the next position. They bootstrap through
    truncation, but not through termination.

    The network's logits are the Q-values, normalized by `value_scale`; its value is unused.
    Layer normalization replaces the target network, so use `ResidualActorCritic`, or on boards
    `ResNetActorCritic` or `TransformerActorCritic`. `MLPActorCritic`, `ConvActorCritic`,
    `GRUActorCritic` and `LSTMActorCritic` have no normalization and may diverge. The heads of the
    last two read a bounded state, so they need a `value_scale` if returns are large.

    Source: Gallici et al. 2024, "Simplifying deep temporal difference learning". The paper uses
    `optax.radam` and `IdentityScale`, and minibatches of single steps.

    Attributes:
        environment: the environment to train in.
        collect: collects the rollouts.
        epsilon: the probability of a random action.
        estimate: computes the lambda-returns.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        value_scale: the initial normalization of the Q-values.
        sizes: the sizes of an update.
        initial_policy: the initial network.
    """

    environment: Environment
    collect: agent.RolloutCollector
    epsilon: agent.Schedule
    estimate: agent.GAE
    optimization: training.Optimization
    value_scale: agent.ValueScale
    sizes: training.RolloutSizes = eqx.field(static=True)
    initial_policy: ActorCritic

    def __call__(
        self, state: training.TrainState
    ) -> tuple[training.TrainState, training.UpdateReport]:
        rollout, targets, collector_state = self.play(state)
        now = state.env_steps.as_float()
        rate, always = self.optimization.learning_rate(now), jnp.array(True)
        scale = state.learner.value_scale.update(targets.value_target)
        learner = eqx.tree_at(lambda x: x.value_scale, state.learner, scale)
        key = jax.random.fold_in(state.key, state.update)
        order = self.sizes.minibatches(self.sizes.num_envs, key=key)
        loss, batch = QLoss(scale), agent.Batch.from_rollout(rollout, targets, scale)

        def descend(
            learner: training.Learner, environments: Int32[Array, " environments"]
        ) -> tuple[training.Learner, training.StepReport]:
            minibatch = batch.select_from_blocks(environments)
            gradient, metrics, _ = self.optimization.gradient(learner, loss, minibatch)
            return self.optimization.apply(learner, gradient, metrics, rate, active=always)

        learner, learned = training.scan_and_sum(descend, learner, order)
        means = {"epsilon": self.epsilon(now), **self.optimization.metrics(learner, rate)}
        report = training.UpdateReport(rollout.episodes, learned, means)
        return self.advance(state, learner, collector_state), report

    def play(
        self, state: training.TrainState
    ) -> tuple[agent.Rollout, agent.Targets, agent.CollectorState]:
        """A rollout with epsilon-greedy actions, its lambda-returns, and the state after it."""
        now = state.env_steps.as_float()
        collect = replace(self.collect, choice=agent.EpsilonGreedyChoice(self.epsilon(now)))
        rollout, collector_state = ShardedCollector(collect, self.mesh)(
            state.learner.policy,
            self.environment,
            state.collector_state,
            precision=self.optimization.precision,
        )
        estimate = agent.resolve_schedules(self.estimate, now)
        return rollout, estimate(rollout, state.learner.value_scale), collector_state

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> training.TrainState:
        games_key, learner_key = jax.random.split(key)
        keys = env_keys(games_key, self.sizes.num_envs)
        learner = self.optimization.init(policy, self.value_scale)
        collector_state = ShardedCollector(self.collect, self.mesh).start(
            policy, self.environment, keys
        )
        return training.TrainState.first(learner_key, learner, collector_state)

    def __init__(
        self,
        environment: Environment,
        policy: ActorCritic,
        *,
        gamma: float | agent.Schedule = 0.99,
        q_lambda: float = 0.65,
        epsilon: float | agent.Schedule = EPSILON,
        value_scale: agent.ValueScale | None = None,
        num_envs: int = 128,
        num_steps: int = 32,
        num_minibatches: int = 32,
        update_epochs: int = 2,
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes the algorithm from modules.

            policy = hm.ResidualActorCritic(environment.spec, key=key)
            trainer = hm.Trainer(hm.PQN(environment, policy, learning_rate=5e-4))

        Args:
            environment: the environment to train in.
            policy: the initial network, with or without memory; see the class.
            gamma: discount factor, in [0, 1].
            q_lambda: lambda of the returns: 0 for one-step targets, 1 for Monte Carlo returns.
            epsilon: probability of a random action, in [0, 1]. The default decreases linearly from
                1 to 0.05 over the first 100,000 environment steps.
            value_scale: normalization of the Q-values; by default `RunningScale()`.
            num_envs: number of environments.
            num_steps: steps per environment in an update.
            num_minibatches: number of minibatches per epoch; must divide `num_envs`.
            update_epochs: number of epochs over a rollout.
            optimization: optimizer, learning rate, precision, memory and devices.
            arguments: the arguments of an `Optimization`, in place of one: `learning_rate=1e-3`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the modules do not fit together.
        """
        self.optimization = training.optimization_of(self, optimization, arguments)
        parts = self.optimization.grad_accum
        sizes = training.RolloutSizes(num_envs, num_steps, num_minibatches, update_epochs, parts)
        sizes.check_mesh(self.optimization.mesh)
        check_is_environment(environment)
        check_blocks(environment, num_envs, devices_of_one(self.optimization.mesh))
        check_own_shapes(environment)
        check_discrete(environment.spec, "PQN")
        self.optimization.check_policy(policy, environment.spec)
        for name, given in {"gamma": gamma, "q_lambda": q_lambda}.items():
            agent.fraction_of(name, given)
        self.epsilon = agent.fraction_of("epsilon", epsilon)
        value_scale = agent.RunningScale() if value_scale is None else value_scale
        instance("value_scale", value_scale, agent.ValueScale, "RunningScale()")
        self.sizes = sizes
        self.environment = environment
        self.collect = agent.RolloutCollector(sizes.num_steps)
        # With V = max Q, the value targets of GAE are the lambda-returns: advantage + V =
        # r + gamma * V' + gamma * q_lambda * (G' - V').
        self.estimate = agent.GAE(gamma, q_lambda)
        self.value_scale = value_scale
        self.initial_policy = policy

    @property
    def sequences(self) -> tuple[str, int]:
        """The name of the argument for the length of a sequence, and its value."""
        return "num_steps", self.sizes.num_steps

    @property
    def steps_per_update(self) -> int:
        """Environment steps of a rollout, over all environments."""
        return self.sizes.num_envs * self.sizes.num_steps

    @property
    def greedy(self) -> bool:
        """`True`: the most likely action is the one with the largest Q-value."""
        return True

    def value_scale_of(self, state: training.TrainState) -> None:
        """`None`: the value output is not trained."""


class QLoss(eqx.Module):
    """Half the mean squared error of the Q-values of the actions taken.

    The targets are `Batch.value_target`, which get no gradient. `scale` converts the Q-values of
    the metrics to units of reward.
    """

    scale: agent.ValueScale

    def prepare(self, batch: agent.Batch) -> "tuple[QLoss, agent.Batch]":
        """The loss and the batch, unchanged: the loss is a mean over samples."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: agent.Batch
    ) -> tuple[Float32[Array, ""], agent.QLosses]:
        """The loss of a network on a batch, and its metrics."""
        seen = batch.observation, batch.initial_carry, batch.done
        q_value = agent.value_of(evaluator_of(policy).unroll(*seen)[0], batch.action)
        error = batch.value_target - q_value
        loss = 0.5 * jnp.mean(error**2)
        return loss, agent.QLosses(
            q_loss=loss,
            td_error=jnp.mean(jnp.abs(error)),
            q_value=jnp.mean(self.scale.denormalize(q_value)),
            q_target=jnp.mean(self.scale.denormalize(batch.value_target)),
        )
