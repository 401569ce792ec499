"""Proximal policy optimization: one update on one screen."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl.agent import (
    AdvantageEstimator,
    Batch,
    Collector,
    Schedule,
    ValueScale,
    at,
    scheduled_at,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameters_of
from hackmatrix_rl.env import Environment, env_keys
from hackmatrix_rl.training._algorithm import Algorithm, Dispatch
from hackmatrix_rl.training._counter import Counter
from hackmatrix_rl.training._gradients import (
    Loss,
    MinibatchGradient,
)
from hackmatrix_rl.training._metrics import Metrics
from hackmatrix_rl.training._minibatches import Minibatches
from hackmatrix_rl.training._ppo_metrics import Learned, UpdateMetrics, read_metrics
from hackmatrix_rl.training._state import (
    Learner,
    TrainState,
    filter_scan,
)
from hackmatrix_rl.training._state_shardings import (
    learner_shardings,
    state_shardings,
)
from hackmatrix_rl.training._teacher import teacher_log_probs
from hackmatrix_rl.training.sharding import (
    constrain,
    fsdp_shardings,
    move,
)


class PPO(Algorithm[TrainState]):
    """Proximal policy optimization: one update collects, estimates and learns.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms".

    Attributes:
        environment: to act in.
        collect: lets the policy act.
        estimate: says how good each action was. It may hold schedules, as the loss may (see
            `hackmatrix_rl.agent.at`).
        loss: what to descend.
        precision: in which dtype the network computes.
        optimizer: turns gradients into changes of the parameters.
        learning_rate: factor on these changes.
        batches: how a rollout is cut up.
        mesh: the devices that share the work. Where the state's arrays lie decides which
            device does what.
        target_kl: the first minibatch whose `LossMetrics.divergence` exceeds it ends the update:
            neither it nor a later one is learned from. `None`: no limit.
        grad_accum: parts of a minibatch whose gradients are computed one after another.
        remat: what is computed again in the backward pass (see `rematerialized`).
        offload: whether the optimizer's state comes from the host's memory for each gradient
            step, and goes back there.
        num_envs: number of environments, over all devices.
        value_scale: the units of the network's value before the first update.
        teaches: whether the policy at the start stays as the teacher of the loss.
        critic_warmup: environment steps from the start in which only the value head learns.
    """

    environment: Environment
    collect: Collector
    estimate: AdvantageEstimator
    loss: Loss
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: Schedule
    batches: Minibatches
    mesh: Mesh = eqx.field(static=True)
    num_envs: int = eqx.field(static=True)
    value_scale: ValueScale
    target_kl: float | None = eqx.field(static=True, default=None)
    grad_accum: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")
    offload: bool = eqx.field(static=True, default=False)
    teaches: bool = eqx.field(static=True, default=False)
    critic_warmup: int = eqx.field(static=True, default=0)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, over all environments."""
        return self.num_envs * self.collect.num_steps

    @property
    def resettable(self) -> tuple[str, ...]:
        """The environments: fresh games begin where their number or sizes change."""
        return ("actors",)

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> TrainState:
        """The state before the first update."""
        actors_key, learner_key = jax.random.split(key)
        keys = env_keys(actors_key, self.num_envs)
        return TrainState(
            learner=Learner(
                policy=policy,
                optimizer_state=self.optimizer.init(parameters_of(policy)),
                value_scale=self.value_scale,
                scaling=self.precision.initial_scaling(),
                skipped=jnp.zeros((), jnp.int32),
            ),
            actors=self.collect.start(policy, self.environment, keys),
            key=learner_key,
            update=jnp.zeros((), jnp.int32),
            env_steps=Counter.of(0),
            teacher=policy if self.teaches else None,
        )

    def policy(self, state: TrainState) -> ActorCritic:
        """The network that acts and learns."""
        return state.learner.policy

    def value_scale_of(self, state: TrainState) -> ValueScale:
        """The scale of the learner."""
        return state.learner.value_scale

    def shardings(self, state: TrainState) -> PyTree[NamedSharding]:
        """The learner is cut along `fsdp`, the environments along `data`."""
        return state_shardings(self.mesh, state, offload=self.offload)

    def metrics(self, report: UpdateMetrics, dispatch: Dispatch) -> Metrics:
        """Means of the losses over the updates, and of the episodes that ended."""
        return read_metrics(report, dispatch, batch=self.steps_per_update)

    def __call__(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
        """The state after one update, and what happened in it."""
        learner = state.learner
        now = state.env_steps.as_float()
        loss, estimate = at((self.loss, self.estimate), now)
        rollout, actors = self.collect(
            learner.policy, self.environment, state.actors, precision=self.precision
        )

        targets = estimate(rollout, learner.value_scale)
        scale = learner.value_scale.update(targets.value_target)
        first = state.update.astype(jnp.uint32) * jnp.uint32(self.batches.count)
        advice = None
        if state.teacher is not None:
            advice = teacher_log_probs(
                state.teacher, rollout, precision=self.precision, mesh=self.mesh
            )
        batch = Batch.of(rollout, targets, scale, number=first, teacher_log_probs=advice)

        num_steps, num_envs = rollout.reward.shape
        order = self.batches(num_envs, key=jax.random.fold_in(state.key, state.update))
        rate = self.learning_rate(now)
        critic_only = now < float(self.critic_warmup) if self.critic_warmup else None
        learner = eqx.tree_at(lambda x: x.value_scale, learner, scale)
        learner, learned = replace(self, loss=loss).learn(
            learner, batch, order, rate, critic_only=critic_only
        )

        after = TrainState(
            learner=learner,
            actors=actors,
            key=state.key,
            update=state.update + 1,
            env_steps=state.env_steps.add(num_steps * num_envs),
            teacher=state.teacher,
        )
        return after, UpdateMetrics(
            episodes=rollout.episodes,
            learned=learned,
            explained_variance=targets.explained_variance(),
            learning_rate=rate,
            scaling=self.precision.report(learner.scaling),
            scheduled=scheduled_at((self.loss, self.estimate), now),
        )

    def learn(
        self,
        learner: Learner,
        batch: Batch,
        order: Int32[Array, "minibatches environments"],
        rate: Float32[Array, ""],
        *,
        critic_only: Bool[Array, ""] | None = None,
    ) -> tuple[Learner, Learned]:
        """Descends the loss on one minibatch after another.

        Args:
            learner: to improve.
            batch: of the whole rollout; its number is that of the first minibatch.
            order: the environments of each minibatch.
            rate: factor on the optimizer's changes.
            critic_only: whether only the value head learns; `None`: everything does.
        """
        take_gradient = MinibatchGradient(
            self.loss, self.precision, self.grad_accum, self.remat, self.mesh
        )

        def descend(
            carry: tuple[Learner, Bool[Array, ""]],
            inputs: tuple[Int32[Array, " environments"], UInt32[Array, ""]],
        ) -> tuple[tuple[Learner, Bool[Array, ""]], PyTree[Array]]:
            learner, going = carry
            environments, number = inputs
            minibatch = replace(batch.select_from_blocks(environments), number=number)
            gradient, losses = take_gradient(learner.policy, minibatch, learner.scaling)
            gradient = constrain(gradient, fsdp_shardings(self.mesh, gradient))

            looked_at = going
            if self.target_kl is not None:
                # NaN does not end the update: the step is skipped and counted below.
                going = going & ~(losses.divergence > self.target_kl)
            norm = optax.tree.norm(gradient)
            finite = jnp.isfinite(norm)
            if self.offload:
                learner = self._with_optimizer_state(learner, offload=False)
            learner = learner.step(
                self.optimizer, gradient, rate, take=going & finite, critic_only=critic_only
            )
            learner = eqx.tree_at(
                lambda x: (x.scaling, x.skipped),
                learner,
                (
                    self.precision.adjust(learner.scaling, finite),
                    learner.skipped + (going & ~finite).astype(jnp.int32),
                ),
            )
            counts = (going & finite).astype(jnp.int32), (going & ~finite).astype(jnp.int32)
            learner = constrain(learner, fsdp_shardings(self.mesh, learner))
            if self.offload:
                learner = self._with_optimizer_state(learner, offload=True)
            return (learner, going), ((losses, norm), counts, looked_at & finite)

        numbers = batch.number + jnp.arange(order.shape[0], dtype=jnp.uint32)
        (learner, _), (reports, counts, weight) = filter_scan(
            descend, (learner, jnp.array(True)), (order, numbers)
        )
        losses, norm = jax.tree.map(lambda leaf: _mean_where(weight, leaf), reports)
        steps, skipped = (jnp.sum(count) for count in counts)
        return learner, Learned(losses=losses, gradient_norm=norm, steps=steps, skipped=skipped)

    def _with_optimizer_state(self, learner: Learner, *, offload: bool) -> Learner:
        """The learner with the optimizer's state on the host, or on the device."""
        where = learner_shardings(self.mesh, learner, offload=offload).optimizer_state
        moved: Learner = eqx.tree_at(
            lambda x: x.optimizer_state, learner, move(learner.optimizer_state, where)
        )
        return moved


def _mean_where(
    where: Bool[Array, " minibatches"], values: Float32[Array, " minibatches"]
) -> Float32[Array, ""]:
    # Not a weighted sum: what is left out may be NaN.
    total = jnp.sum(jnp.where(where, values, 0.0))
    return total / jnp.maximum(jnp.sum(where.astype(jnp.float32)), 1.0)
