"""Proximal policy optimization: one update on one screen."""

import math
from dataclasses import replace
from typing import Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic, add_normalization, update_moments
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.algorithms.ppo._arguments import (
    all_or_value_head,
    check_games,
    check_output,
    collector_of,
    critic_warmup_of,
    losses_of,
    num_steps_of,
    target_kl_of,
)
from hackmatrix_rl.algorithms.ppo._learning_only import empty_rollout
from hackmatrix_rl.algorithms.ppo._teacher import teacher_log_probs, teaches_of
from hackmatrix_rl.env import Environment, env_keys
from hackmatrix_rl.system import bytes_of, errors
from hackmatrix_rl.training.sharding import ShardedCollector, devices_of_one


class PPOState(training.TrainState):
    """The training state of PPO.

    `teacher` is the initial policy if the loss has a KL term to it, else `None`. It never changes.
    """

    collector_state: agent.CollectorState
    teacher: ActorCritic | None = None


class PPO(training.LearnerAlgorithm[PPOState]):
    """Proximal policy optimization: one update collects, estimates and learns.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms".

    The constructor describes `target_kl` and `critic_warmup`.

    Attributes:
        collect: lets the policy act.
        estimate: estimates the advantages. Its numbers may be schedules, as in `loss` (see
            `hackmatrix_rl.agent.resolve_schedules`).
        loss: the loss to minimize.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        sizes: environments, minibatches and epochs of an update.
        value_scale: units of the network's value before the first update.
        teaches: whether the initial policy is kept as the teacher of the loss.
        normalize_observations: whether each rollout updates the policy's `RunningMoments`.
    """

    environment: Environment
    collect: agent.Collector
    estimate: agent.AdvantageEstimator
    loss: training.Loss
    optimization: training.Optimization
    sizes: training.RolloutSizes = eqx.field(static=True)
    value_scale: agent.ValueScale
    target_kl: float | None = eqx.field(static=True)
    teaches: bool = eqx.field(static=True)
    normalize_observations: bool = eqx.field(static=True)
    critic_warmup: int = eqx.field(static=True)
    initial_policy: ActorCritic

    networks = ("teacher",)

    def __call__(self, state: PPOState) -> tuple[PPOState, training.UpdateReport]:
        """The state after one update, and its report."""
        learner = state.learner
        now = state.env_steps.as_float()
        loss, estimate = agent.resolve_schedules((self.loss, self.estimate), now)
        rollout, collector_state = self.collect(
            learner.policy, self.environment, state.collector_state, precision=self.precision
        )

        targets = estimate(rollout, learner.value_scale)
        scale = learner.value_scale.update(targets.value_target)
        batches = self.sizes.minibatches
        first = state.update.astype(jnp.uint32) * jnp.uint32(batches.count)
        advice = teacher_log_probs(state.teacher, rollout, precision=self.precision, mesh=self.mesh)
        batch = agent.Batch.from_rollout(
            rollout, targets, scale, number=first, teacher_log_probs=advice
        )

        order = batches(self.sizes.num_envs, key=jax.random.fold_in(state.key, state.update))
        rate = self.optimization.learning_rate(now)
        trained = None
        if self.critic_warmup:
            trained = all_or_value_head(learner.policy, now >= float(self.critic_warmup))
        learner = eqx.tree_at(lambda x: x.value_scale, learner, scale)
        learner, steps = self.learn(learner, loss, batch, order, rate, trained=trained)
        if self.normalize_observations:  # last: the policy learns with the moments that acted
            policy = update_moments(learner.policy, rollout.observation)
            learner = eqx.tree_at(lambda x: x.policy, learner, policy)

        means = {
            "explained_variance": targets.explained_variance(),
            **self.optimization.metrics(learner, rate),
            **agent.scheduled_at((self.loss, self.estimate), now),
        }
        report = training.UpdateReport(rollout.episodes, steps, means)
        return self.advance(state, learner, collector_state), report

    def learn(
        self,
        learner: training.Learner,
        loss: training.Loss,
        batch: agent.Batch,
        order: Int32[Array, "minibatches environments"],
        rate: Float32[Array, ""],
        *,
        trained: PyTree[Bool[Array, ""]] | None = None,
    ) -> tuple[training.Learner, training.StepReport]:
        """One gradient step for each minibatch, of the environments in each row of `order`.

        `batch.number` is the number of the first minibatch. `trained` selects the parameters that
        change, as in `Optimization.apply`.
        """

        def descend(
            carry: tuple[training.Learner, Bool[Array, ""]],
            inputs: tuple[Int32[Array, " environments"], UInt32[Array, ""]],
        ) -> tuple[tuple[training.Learner, Bool[Array, ""]], training.StepReport]:
            learner, active = carry
            environments, number = inputs
            minibatch = replace(batch.select_from_blocks(environments), number=number)
            grads, losses, _ = self.optimization.gradient(learner, loss, minibatch)
            include = active
            if self.target_kl is not None:
                # NaN does not end the update: the step is skipped and counted.
                active = active & ~(losses.divergence > self.target_kl)
            learner, report = self.optimization.apply(
                learner, grads, losses, rate, active=active, include=include, trained=trained
            )
            return (learner, active), report

        numbers = batch.number + jnp.arange(order.shape[0], dtype=jnp.uint32)
        (learner, _), report = training.scan_and_sum(
            descend, (learner, jnp.array(True)), (order, numbers)
        )
        return learner, report

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> PPOState:
        """The state before the first update."""
        games_key, learner_key = jax.random.split(key)
        keys = env_keys(games_key, self.sizes.num_envs)
        learner = self.optimization.init(policy, self.value_scale)
        collector_state = self.collect.start(policy, self.environment, keys)
        teacher = policy if self.teaches else None
        return PPOState.first(learner_key, learner, collector_state, teacher=teacher)

    def __init__(
        self,
        environment: Environment,
        policy: ActorCritic,
        *,
        loss: training.Loss | None = None,
        gae: agent.AdvantageEstimator | None = None,
        collector: agent.Collector | None = None,
        value_scale: agent.ValueScale | None = None,
        num_envs: int = 256,
        num_steps: int | None = None,
        num_minibatches: int = 4,
        update_epochs: int = 4,
        target_kl: float | None = None,
        critic_warmup: int = 0,
        normalize_observations: bool = False,
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes the algorithm from modules.

            policy = hm.MLPActorCritic(environment.spec, key=key)
            trainer = hm.Trainer(hm.PPO(environment, policy, learning_rate=1e-3))

        Args:
            environment: the environment to train in.
            policy: the initial policy. It is copied. If the loss has `needs_teacher`
                (`PPOLoss(teacher_kl_coef=0.5)`), a second copy is the teacher.
            loss: maps a policy and a `Batch` to a scalar and `LossMetrics`; by default
                `PPOLoss()`.
            gae: estimates the advantages; by default `GAE()`.
            collector: lets the policy act; by default a `RolloutCollector` that keeps what the
                loss needs. Each device of the mesh runs a `RolloutCollector` on its share of the
                environments. Any other `Collector`, including a subclass, is used unchanged.
            value_scale: units in which the network learns values; by default `RunningScale()`.
            num_envs: number of environments.
            num_steps: steps of each environment in an update; by default 128, or as in the
                `collector`.
            num_minibatches: number of minibatches in one pass over a rollout; must divide
                `num_envs`.
            update_epochs: number of passes over a rollout.
            target_kl: an update stops before the first minibatch whose `LossMetrics.divergence`
                from the policy that acted exceeds this. `None` for no limit.
            critic_warmup: number of initial environment steps in which only the value head
                (`heads.value`) is updated, to protect a good policy from an untrained critic.
            normalize_observations: whether the network takes floating-point observations in
                standard deviations from their running mean, clipped to ±10.
            optimization: optimizer, learning rate, precision, memory and devices.
            arguments: of an `Optimization`, in place of one: `learning_rate=1e-3`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or modules do not fit together. Shapes and
                dtypes are checked; see `check_environment` and `check_policy`. `check`, which
                `Trainer` calls, checks the shapes and dtypes of a custom loss.
        """
        self.optimization = training.optimization_of(self, optimization, arguments)
        mesh, parts = self.optimization.mesh, self.optimization.grad_accum
        steps = num_steps_of(num_steps, collector)
        sizes = training.RolloutSizes(num_envs, steps, num_minibatches, update_epochs, parts)
        check_games(environment, num_envs, mesh)
        agent.check_is_policy(policy)
        self.loss, self.estimate, self.value_scale = losses_of(loss, gae, value_scale)
        self.optimization.check_policy(policy, environment.spec)
        sizes.check_mesh(mesh)
        self.normalize_observations = errors.truth("normalize_observations", normalize_observations)
        if normalize_observations:
            policy = add_normalization(policy, environment.spec)
        self.teaches = teaches_of(self.loss, policy)
        self.environment = environment
        self.collect = collector_of(collector, sizes.num_steps, self.loss, environment.spec, mesh)
        self.sizes = sizes
        self.target_kl = target_kl_of(target_kl)
        self.critic_warmup = critic_warmup_of(critic_warmup, policy)
        self.initial_policy = policy

    def check(self, policy: ActorCritic) -> None:
        """Traces a custom loss on a minibatch of shapes; see `Algorithm.check`."""
        if errors.is_ours(self.loss):  # tests check it
            return
        at_once = self.sizes.num_envs // (self.sizes.num_minibatches * self.sizes.grad_accum)
        sizes = self.collect.num_steps, at_once
        check_output(self.loss, policy, self.environment.spec, self.precision, sizes)

    def eager(self) -> "PPO":
        """A copy for `jax.disable_jit()`; see `RunsEagerly`. Its collector is not sharded."""
        collect = self.collect
        if isinstance(collect, ShardedCollector):
            collect = collect.collect  # `shard_map` compiles what it maps
        compiled = training.CompiledEnvironment(self.environment)
        return eqx.tree_at(lambda ppo: (ppo.environment, ppo.collect), self, (compiled, collect))

    @property
    def precision(self) -> PrecisionPolicy:
        """The dtypes in which the network computes."""
        return self.optimization.precision

    @property
    def sequences(self) -> tuple[str, int]:
        """The argument for the steps of a rollout, and its value."""
        return "num_steps", self.collect.num_steps

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, over all environments."""
        return self.sizes.num_envs * self.collect.num_steps

    def metrics(
        self, report: training.UpdateReport, dispatch: training.Dispatch
    ) -> training.Metrics:
        """Means of the losses over the minibatches, and of the episodes that ended."""
        metrics = report.metrics(dispatch, batch=self.steps_per_update)
        auxiliary = report.steps.metrics.auxiliary
        means = {} if auxiliary is None else auxiliary.means()
        return replace(metrics, learning={**metrics.learning, **means})

    def learning_only(self, state: PPOState) -> "PPO":
        """A copy that learns from zeros, which is faster only with a sparse first layer (`mlp`)."""
        replayed = empty_rollout(
            self.collect, state.learner.policy, self.environment, state.collector_state, self.mesh
        )
        return eqx.tree_at(lambda ppo: ppo.collect, self, replayed)

    def working_bytes(self, state: PPOState) -> int:
        """Bytes of observations, actions and masks of a rollout on one device."""
        spec = self.environment.spec
        seen = bytes_of((spec.stored, jax.eval_shape(spec.actions.zeros))) + spec.actions.mask_size
        games = math.ceil(self.sizes.num_envs / devices_of_one(self.mesh))
        return games * self.collect.num_steps * seen
