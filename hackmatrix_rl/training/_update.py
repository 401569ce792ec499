"""One update of proximal policy optimization, on one screen."""

from collections.abc import Mapping
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from hackmatrix_rl.agent import (
    GAE,
    Batch,
    EpisodeSums,
    LossMetrics,
    RolloutCollector,
)
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.env import Environment
from hackmatrix_rl.training._gradients import (
    Loss,
    MinibatchGradient,
)
from hackmatrix_rl.training._minibatches import Minibatches
from hackmatrix_rl.training._schedules import Schedule
from hackmatrix_rl.training._state import (
    Learner,
    TrainState,
    filter_scan,
)
from hackmatrix_rl.training._state_shardings import (
    learner_shardings,
)
from hackmatrix_rl.training.sharding import (
    constrain,
    fsdp_shardings,
    move,
)


class Learned(eqx.Module):
    """What came of learning from minibatches.

    Attributes:
        losses: as the loss reported them; means over the minibatches that were looked at,
            which are all up to the one that exceeded the limit of the divergence.
        gradient_norm: likewise, before any clipping.
        steps: number of gradient steps taken.
        skipped: number of those left out because the gradient was not finite.
    """

    losses: LossMetrics
    gradient_norm: Float32[Array, ""]
    steps: Int32[Array, ""]
    skipped: Int32[Array, ""]


class UpdateMetrics(eqx.Module):
    """What an update tells, on the device. `Metrics` is what becomes of it on the host.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: what came of the minibatches.
        explained_variance: of the values that acted (see `Targets`).
        learning_rate: factor on the optimizer's changes.
        scaling: what the precision policy tells of its loss scaling, after the update.
    """

    episodes: EpisodeSums
    learned: Learned
    explained_variance: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    scaling: Mapping[str, Float32[Array, ""]]


class Update(eqx.Module):
    """One update: collect, estimate, learn.

    Attributes:
        environment: to act in.
        collect: lets the policy act.
        estimate: says how good each action was.
        loss: what to descend.
        precision: in which dtype the network computes.
        optimizer: turns gradients into changes of the parameters.
        learning_rate: factor on these changes.
        batches: how a rollout is cut up.
        mesh: the devices that share the work. Which of them does what follows from where the
            state's arrays lie.
        target_kl: once a minibatch's `approx_kl` exceeds it, neither that minibatch nor any
            later one of the update is learned from; `None`: all are.
        grad_accum: equal parts of a minibatch that are learned from one after another.
        remat: what is computed again in the backward pass (see `rematerialized`).
        offload: whether the optimizer's state comes from the host's memory for each gradient
            step, and goes back there.
    """

    environment: Environment
    collect: RolloutCollector
    estimate: GAE
    loss: Loss
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: Schedule
    batches: Minibatches
    mesh: Mesh = eqx.field(static=True)
    target_kl: float | None = eqx.field(static=True, default=None)
    grad_accum: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")
    offload: bool = eqx.field(static=True, default=False)

    def __call__(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
        """The state after one update, and what happened in it."""
        learner = state.learner
        rollout, actors = self.collect(
            learner.policy, self.environment, state.actors, precision=self.precision
        )

        targets = self.estimate(rollout, learner.value_scale)
        scale = learner.value_scale.update(targets.value_target)
        first = state.update.astype(jnp.uint32) * jnp.uint32(self.batches.count)
        batch = Batch.of(rollout, targets, scale, number=first)

        num_steps, num_envs = rollout.reward.shape
        order = self.batches(num_envs, key=jax.random.fold_in(state.key, state.update))
        rate = self.learning_rate(state.env_steps.as_float())
        learner = eqx.tree_at(lambda x: x.value_scale, learner, scale)
        learner, learned = self.learn(learner, batch, order, rate)

        after = TrainState(
            learner=learner,
            actors=actors,
            key=state.key,
            update=state.update + 1,
            env_steps=state.env_steps.add(num_steps * num_envs),
        )
        return after, UpdateMetrics(
            episodes=rollout.episodes,
            learned=learned,
            explained_variance=targets.explained_variance(),
            learning_rate=rate,
            scaling=self.precision.report(learner.scaling),
        )

    def learn(
        self,
        learner: Learner,
        batch: Batch,
        order: Int32[Array, "minibatches environments"],
        rate: Float32[Array, ""],
    ) -> tuple[Learner, Learned]:
        """Descends the loss on one minibatch after another.

        Args:
            learner: to improve.
            batch: of the whole rollout; its number is that of the first minibatch.
            order: the environments of each minibatch.
            rate: factor on the optimizer's changes.
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
                # A divergence that is not a number does not end the update: the step is skipped
                # below, and counted.
                going = going & ~(losses.approx_kl > self.target_kl)
            norm = optax.tree.norm(gradient)
            finite = jnp.isfinite(norm)
            if self.offload:
                learner = self._with_optimizer_state(learner, offload=False)
            learner = learner.step(self.optimizer, gradient, rate, take=going & finite)
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
