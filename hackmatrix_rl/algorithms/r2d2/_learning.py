"""The gradient steps of an update of Q-learning."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Sample, with_priorities
from hackmatrix_rl.algorithms.r2d2._loss import SequenceLoss
from hackmatrix_rl.algorithms.r2d2._sampling import Sampling
from hackmatrix_rl.algorithms.r2d2._sizes import Sizes
from hackmatrix_rl.training import GradientStep, Learner, StepReport, scan_and_sum
from hackmatrix_rl.training.sharding import on_each_device


class LearnerState(eqx.Module):
    """What gradient steps change.

    Attributes:
        learner: the network and everything that changes with it.
        target: the target network.
        priority: of the sequences in the buffer; `None` without priorities.
        gradient_steps: number of gradient steps taken.
    """

    learner: Learner
    target: ActorCritic
    priority: Float32[Array, "num_envs starts"] | None
    gradient_steps: Int32[Array, ""]


class LearnFromSequences(eqx.Module):
    """Takes gradient steps on sequences from the buffer, each device on its own environments'.

    Attributes:
        loss: what to descend.
        step: the gradient step.
        sizes: of an update.
    """

    loss: SequenceLoss
    step: GradientStep
    sizes: Sizes = eqx.field(static=True)

    def __call__(
        self, state: LearnerState, buffer: Buffer, rate: Float32[Array, ""], key: Key[Array, ""]
    ) -> tuple[LearnerState, StepReport]:
        """The state after the gradient steps of an update, and what happened in them.

        Args:
            state: before them.
            buffer: the steps of the environments.
            rate: factor on the optimizer's changes.
            key: decides what is drawn.
        """
        enough = buffer.filled * self.sizes.num_envs >= self.sizes.learning_starts

        def descend(state: LearnerState, number: Int32[Array, ""]) -> tuple[LearnerState, Any]:
            here = jax.random.fold_in(key, number)
            sample = self._sample(replace(buffer, priority=state.priority), here)
            # Cast first: then less is gathered if parameters are cut along `fsdp`.
            target = self.step.precision.cast_to_compute(state.target)
            gradient, losses, (priority,) = self.step.gradient(
                state.learner, self.loss, sample, target, state.learner.value_scale
            )
            active = enough & jnp.any(sample.valid > 0)
            learner, report = self.step.apply(state.learner, gradient, losses, rate, active=active)
            applied, steps = report.steps > 0, state.gradient_steps + report.steps
            after = LearnerState(
                learner=learner,
                target=sync_target(
                    state.target, learner.policy, applied & (steps % self.sizes.target_update == 0)
                ),
                priority=self._priorities(state.priority, sample, priority, applied),
                gradient_steps=steps,
            )
            return after, report

        steps = jnp.arange(self.sizes.train_steps, dtype=jnp.int32)
        return scan_and_sum(descend, state, steps)

    def _sample(self, buffer: Buffer, key: Key[Array, ""]) -> Sample:
        """Sequences of all devices, each from its own environments."""
        sizes = self.sizes

        def on_one(sampling: Sampling, given: tuple[Buffer, Any]) -> Sample:
            buffer, keys = given
            return buffer.draw(
                sampling, sizes.of_each, starts=sizes.starts, window=sizes.window, keys=keys
            )

        keys = jax.random.split(key, sizes.blocks)
        sample: Sample = on_each_device(
            self.step.mesh, on_one, (self.loss.sampling,), (buffer, keys)
        )
        return sample

    def _priorities(
        self,
        priority: Float32[Array, "num_envs starts"] | None,
        sample: Sample,
        new: Float32[Array, " sequences"] | None,
        applied: Bool[Array, ""],
    ) -> Float32[Array, "num_envs starts"] | None:
        """The priorities after a gradient step; as they were where none was applied."""
        if priority is None:
            return None
        written: Float32[Array, "num_envs starts"] = on_each_device(
            self.step.mesh, lambda given: with_priorities(*given), (), (priority, sample, new)
        )
        return jnp.where(applied, written, priority)


def sync_target(target: ActorCritic, policy: ActorCritic, due: Bool[Array, ""]) -> ActorCritic:
    """The target network; a copy of the network itself where it is due."""
    arrays, code = eqx.partition(target, eqx.is_array)
    newest = eqx.filter(policy, eqx.is_array)
    chosen = jax.tree.map(lambda old, new: jnp.where(due, new, old), arrays, newest)
    synced: ActorCritic = eqx.combine(chosen, code)
    return synced
