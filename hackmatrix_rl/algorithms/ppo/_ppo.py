"""Proximal policy optimization: one update on one screen."""

import math
from dataclasses import replace
from typing import Any, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameter_paths, parameters_of, path_name
from hackmatrix_rl.algorithms.ppo._custom_loss import check_loss, check_output
from hackmatrix_rl.algorithms.ppo._learning_only import empty_rollout
from hackmatrix_rl.env import Environment, EnvSpec, check_is_environment, check_own_shapes, env_keys
from hackmatrix_rl.system import bytes_of, errors
from hackmatrix_rl.training.sharding import (
    BY_STEP_AND_ENVIRONMENT,
    REPLICATED,
    ShardedCollector,
    devices_of_one,
)


class PPOState(training.TrainState):
    """The training state of PPO.

    `teacher` is the policy that the KL term of the loss holds on to: the one that training began
    with. It never changes. It is `None` without such a term.
    """

    collector_state: agent.CollectorState
    teacher: ActorCritic | None = None


class PPO(training.LearnerAlgorithm[PPOState]):
    """Proximal policy optimization: one update collects, estimates and learns.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms".

    Attributes:
        environment: to act in.
        collect: lets the policy act.
        estimate: says how good each action was. It may hold schedules, as the loss may (see
            `hackmatrix_rl.agent.resolve_schedules`).
        loss: what to descend.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        sizes: environments, minibatches and epochs of an update.
        value_scale: the units of the network's value before the first update.
        target_kl: stops the update early, before the first minibatch whose `LossMetrics.divergence`
            exceeds this. `None`: no limit.
        teaches: whether the policy at the start stays as the teacher of the loss.
        critic_warmup: environment steps from the start in which only the value head is updated.
        initial_policy: the policy to start from.
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
        advice = None
        if state.teacher is not None:
            advice = teacher_log_probs(
                state.teacher, rollout, precision=self.precision, mesh=self.mesh
            )
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
        """Descends the loss on one minibatch after another, on the environments in `order`.

        The whole rollout has the number of its first minibatch. `trained` says which parameters
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
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes the algorithm from modules.

            policy = hm.MLPActorCritic(environment.spec, key=key)
            trainer = hm.Trainer(hm.PPO(environment, policy, learning_rate=1e-3))

        Args:
            environment: the environment to train in.
            policy: the policy to start from. It is copied, not changed. If the loss has
                `needs_teacher` (`PPOLoss(teacher_kl_coef=0.5)`), a copy stays as the teacher.
            loss: from a policy and a `Batch` to a scalar and `LossMetrics`; by default
                `PPOLoss()`. Numbers in it may be schedules, if it allows that.
            gae: estimates the advantages; by default `GAE()`. The same holds for its numbers.
            collector: lets the policy act; by default a `RolloutCollector` that keeps what the
                loss needs. Each device of the mesh runs a `RolloutCollector` for its own
                environments. Any other `Collector`, a subclass of that one too, is used as it is.
            value_scale: units in which the network learns values; by default `RunningScale()`.
            num_envs: number of environments.
            num_steps: steps of each environment in an update; by default 128, or as in the
                `collector`.
            num_minibatches: number of minibatches in one pass over a rollout; must divide
                `num_envs`.
            update_epochs: number of passes over a rollout.
            target_kl: largest KL divergence from the policy that acted. Once it is exceeded, the
                rest of the update is skipped. `None` for no limit.
            critic_warmup: environment steps from the start in which only the value head is updated
                (`heads.value`), so that a good policy is not changed by a bad critic.
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
        check_is_environment(environment)
        agent.check_is_policy(policy)
        self.loss, self.estimate, self.value_scale = losses_of(loss, gae, value_scale)
        check_own_shapes(environment)
        self.optimization.check_policy(policy, environment.spec)
        sizes.check_mesh(mesh)
        self.teaches = bool(getattr(self.loss, "needs_teacher", False))
        if self.teaches:
            check_teacher(policy)
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
        return eqx.tree_at(
            lambda ppo: (ppo.environment, ppo.collect),
            self,
            (training.CompiledEnvironment(self.environment), collect),
        )

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
        auxiliary = auxiliary_means(report.steps.metrics)
        return replace(metrics, learning={**metrics.learning, **auxiliary})

    def learning_only(self, state: PPOState) -> "PPO":
        """A copy that learns from a rollout of zeros.

        The time of learning does not depend on the games, except for a sparse first layer
        (`mlp`): it is faster on empty boards, so compare its whole updates.
        """
        replayed = empty_rollout(
            self.collect, state.learner.policy, self.environment, state.collector_state, self.mesh
        )
        return eqx.tree_at(lambda ppo: ppo.collect, self, replayed)

    def working_bytes(self, state: PPOState) -> int:
        """Bytes of observations and masks of a rollout on one device."""
        spec = self.environment.spec
        games = math.ceil(self.sizes.num_envs / devices_of_one(self.mesh))
        return games * self.collect.num_steps * (bytes_of(spec.stored) + spec.num_actions)


def teacher_log_probs(
    teacher: ActorCritic, rollout: agent.Rollout, *, precision: PrecisionPolicy, mesh: Mesh
) -> Float32[Array, "num_steps num_envs num_actions"]:
    """Log-probabilities of all actions under a teacher, minus infinity for illegal ones.

    Each device asks the teacher about its own environments, one step after another: that takes
    no more memory than acting does.
    """
    arrays, code = eqx.partition(precision.cast_to_compute(teacher), eqx.is_array)

    def on_one(
        arrays: Any, observations: PyTree[Array], masks: Bool[Array, "num_steps some num_actions"]
    ) -> Float32[Array, "num_steps some num_actions"]:
        policy = eqx.combine(arrays, code)

        def one(step: tuple[Any, Any]) -> Float32[Array, "some num_actions"]:
            observation, mask = step
            logits, _, _ = jax.vmap(lambda seen: policy(seen, policy.initial_carry()))(observation)
            return agent.MaskedCategorical(logits, mask).log_probs

        return jax.lax.map(one, (observations, masks))

    return jax.shard_map(
        on_one,
        mesh=mesh,
        in_specs=(REPLICATED, BY_STEP_AND_ENVIRONMENT, BY_STEP_AND_ENVIRONMENT),
        out_specs=BY_STEP_AND_ENVIRONMENT,
        check_vma=False,  # the specs say what varies over devices
    )(arrays, rollout.observation, rollout.mask)


def all_or_value_head(policy: ActorCritic, everything: Bool[Array, ""]) -> PyTree[Bool[Array, ""]]:
    """For each parameter, whether it changes: all do, or the value head's alone."""
    return jax.tree.map_with_path(
        lambda path, _: everything | training.is_value_head(path_name(path)), parameters_of(policy)
    )


def auxiliary_means(losses: agent.LossMetrics) -> dict[str, float]:
    """The parts of the auxiliary loss, averaged over the minibatches that compute them."""
    auxiliary = losses.auxiliary
    if auxiliary is None or not float(auxiliary.due):
        return {}
    parts = {
        "aux_terms_loss": auxiliary.terms,
        "aux_end_loss": auxiliary.terminated,
        **({} if auxiliary.won is None else {"aux_win_loss": auxiliary.won}),
    }
    return {name: float(total) / float(auxiliary.due) for name, total in parts.items()}


NUM_STEPS = 128
"""Steps of a rollout by default."""


def num_steps_of(given: Any, collector: Any) -> Any:
    """`num_steps`; where it is `None`, the collector's, or this package's default."""
    if collector is None:
        return NUM_STEPS if given is None else given
    errors.instance("collector", collector, agent.Collector, "RolloutCollector(128)")
    if given is not None and given != collector.num_steps:
        raise ValueError(
            f"num_steps is {given}, and the collector takes {collector.num_steps} steps; leave "
            "num_steps out"
        )
    return collector.num_steps


def losses_of(
    loss: Any, gae: Any, value_scale: Any
) -> tuple[Any, agent.AdvantageEstimator, agent.ValueScale]:
    """Loss, advantage estimator and value scale; this package's default for each `None`."""
    loss = agent.PPOLoss() if loss is None else loss
    gae = agent.GAE() if gae is None else gae
    value_scale = agent.RunningScale() if value_scale is None else value_scale
    check_loss(loss)
    errors.instance("gae", gae, agent.AdvantageEstimator, "hm.GAE(gamma=0.99)")
    errors.instance("value_scale", value_scale, agent.ValueScale, "RunningScale()")
    return loss, gae, value_scale


def check_teacher(policy: ActorCritic) -> None:
    """Raises a ValueError if a network has memory: a rollout keeps the acting policy's."""
    if jax.tree.leaves(jax.eval_shape(policy.initial_carry)):
        raise ValueError(
            f"the KL to a teacher needs a network without memory; {type(policy).__name__} has one"
        )


def target_kl_of(given: Any) -> float | None:
    """`target_kl` as a float; raises unless it is `None` or a positive number."""
    if given is not None and errors.finite("target_kl", given) <= 0:
        raise ValueError(f"target_kl must be positive or None, not {given}")
    return None if given is None else float(given)


def critic_warmup_of(given: Any, policy: ActorCritic) -> int:
    """`critic_warmup` as a whole number; raises if the policy has no value head to warm up."""
    if given == 0:
        return 0
    steps = errors.whole("critic_warmup", given)
    if not any(map(training.is_value_head, parameter_paths(policy))):
        raise ValueError(
            f"critic_warmup={steps} trains the parameters {training.VALUE_HEAD} alone; "
            f"{type(policy).__name__} has none of this name. Use a TrunkActorCritic, or 0"
        )
    return steps


def collector_of(
    given: agent.Collector | None, num_steps: int, loss: Any, spec: EnvSpec, mesh: Mesh
) -> agent.Collector:
    """The collector, or this package's for `None`; a `RolloutCollector` on each device."""
    # Only an auxiliary loss needs the parts of the reward of each step.
    terms = spec.terms if getattr(loss, "auxiliary", None) is not None else ()
    keep_log_probs = bool(getattr(loss, "needs_old_log_probs", False))
    if given is None:
        given = agent.RolloutCollector(num_steps, terms=terms, keep_log_probs=keep_log_probs)
    choice = getattr(given, "choice", agent.DRAWN)
    if not isinstance(choice, type(agent.DRAWN)):
        raise ValueError(
            f"collector chooses the actions by {type(choice).__name__}, and PPO learns from those "
            "drawn from the policy; leave choice out"
        )
    if terms and given.terms != terms:
        raise ValueError(
            f"collector keeps the terms {list(given.terms)}, and the auxiliary loss needs all of "
            "the environment; use terms=environment.spec.terms"
        )
    if keep_log_probs and not given.keep_log_probs:
        raise ValueError(
            "collector does not keep the log-probabilities of all actions, which the loss needs; "
            "use keep_log_probs=True"
        )
    # A subclass may collect in its own way, which `ShardedCollector` would not call.
    return ShardedCollector(given, mesh) if type(given) is agent.RolloutCollector else given
