"""The sizes, the loss and the gradient steps of R2D2."""

from dataclasses import dataclass, fields, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import QLosses, ValueScale, value_of
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.algorithms.r2d2._acting import Steps
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Sample, Sampling, with_priorities
from hackmatrix_rl.algorithms.r2d2._q_values import double_q, memory_after, n_step_returns, unroll_q
from hackmatrix_rl.system.errors import ArgumentError, whole
from hackmatrix_rl.training import GradientStep, Learner, StepReport, mean_weights, scan_and_sum
from hackmatrix_rl.training.sharding import Blocks, on_each_device

FROM_ZERO = ("burn_in", "learning_starts")


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update; see `R2D2`. Whole numbers, at least 1 or as in `FROM_ZERO`."""

    num_envs: int
    train_freq: int
    buffer_size: int
    sequence_length: int
    burn_in: int
    n_step: int
    sequence_batch_size: int
    train_steps: int
    learning_starts: int
    target_update: int

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name in FROM_ZERO else 1
            object.__setattr__(self, each.name, whole(each.name, getattr(self, each.name), least))
        if self.length < self.window:
            updates = -(-self.window // self.train_freq)
            raise ArgumentError(
                f"{{buffer_size}} keeps {self.length} steps of each of the {self.num_envs} "
                f"environments (whole updates of {self.train_freq}), but a sequence takes "
                f"{self.window}: {{burn_in}} + {{sequence_length}} + {{n_step}}; use "
                f"{{buffer_size:={updates * self.train_freq * self.num_envs}}} or more, or a "
                "shorter sequence",
                buffer_size=self.buffer_size,
                burn_in=self.burn_in,
                sequence_length=self.sequence_length,
                n_step=self.n_step,
            )
        if self.learning_starts > self.length * self.num_envs:
            raise ArgumentError(
                f"{{learning_starts}} is more than the {self.length * self.num_envs} steps that "
                "the buffer keeps; use that many or less",
                learning_starts=self.learning_starts,
            )
        self.in_blocks.check(environments="environments", samples="sequences")

    @property
    def in_blocks(self) -> Blocks:
        """The blocks of environments from which a batch is sampled."""
        return Blocks("num_envs", self.num_envs, "sequence_batch_size", self.sequence_batch_size)

    @property
    def length(self) -> int:
        """Steps per environment in the buffer, a multiple of `train_freq`."""
        return self.buffer_size // (self.num_envs * self.train_freq) * self.train_freq

    @property
    def starts(self) -> int:
        """Number of possible starts of a sequence in an environment's ring."""
        return self.length // self.train_freq

    @property
    def window(self) -> int:
        """Steps of a sequence, with burn-in and the steps of the last n-step return."""
        return self.burn_in + self.sequence_length + self.n_step


class SequenceLoss(eqx.Module):
    """Half the mean squared TD error of sequences, weighted by importance.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning".
    """

    sampling: Sampling
    gamma: float = eqx.field(static=True)
    n_step: int = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)
    dueling: bool = eqx.field(static=True)

    def prepare(self, sample: Sample) -> tuple["SequenceLoss", Sample]:
        """The sample with normalized weights: the largest is 1, and the mean is over valid ones."""
        weight = jnp.where(sample.valid > 0, sample.weight, 0.0)
        largest = jnp.max(weight)
        weight = weight / jnp.where(largest > 0, largest, 1.0)
        return self, replace(sample, weight=weight, valid=mean_weights(sample.valid))

    def __call__(
        self,
        policy: ActorCritic | Evaluator,
        sample: Sample,
        target: ActorCritic,
        scale: ValueScale,
    ) -> tuple[Float32[Array, ""], QLosses, Float32[Array, " sequences"] | None]:
        """The weighted mean over the sequences, the metrics, and the new priority of each.

        Each sequence has `burn_in` steps, the steps to learn from, and `n_step` more. Sequences
        that are not valid contribute 0. `scale` normalizes the Q-values of both networks.
        """
        steps: Steps = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), sample.steps)
        error, value, wanted = self.errors(policy, target, scale, steps, sample.carry)
        losses = QLosses(
            q_loss=0.5 * jnp.mean(error**2, axis=0),
            td_error=jnp.mean(jnp.abs(error), axis=0),
            q_value=jnp.mean(scale.denormalize(value), axis=0),
            q_target=jnp.mean(wanted, axis=0),
        )
        mean = jnp.mean(sample.valid * sample.weight * losses.q_loss)
        means = jax.tree.map(lambda leaf: jnp.mean(sample.valid * leaf), losses)
        return mean, means, self.sampling.priority(error)

    def errors(
        self,
        policy: ActorCritic | Evaluator,
        target: ActorCritic,
        scale: ValueScale,
        steps: Steps,
        carry: PyTree[Array],
    ) -> tuple[
        Float32[Array, "time sequences"],
        Float32[Array, "time sequences"],
        Float32[Array, "time sequences"],
    ]:
        """The TD errors after burn-in, of steps `[window, sequences, ...]`.

        Returns:
            The errors and the Q-values of the actions taken, both normalized by `scale`; and the
            targets, in units of reward.
        """
        before: Steps = jax.tree.map(lambda leaf: leaf[: self.burn_in], steps)
        here: Steps = jax.tree.map(lambda leaf: leaf[self.burn_in :], steps)
        last = None if here.last is None else here.last.observation

        def look(network: ActorCritic | Evaluator) -> tuple[Array, Array | None]:
            # Each network burns in its own memory.
            evaluator = evaluator_of(network)
            memory = memory_after(evaluator.policy, before.observation, carry, before.done)
            return unroll_q(
                evaluator.policy,
                here.observation,
                last,
                memory,
                here.done,
                dueling=self.dueling,
                recompute=getattr(evaluator, "recompute", False),
            )

        (online, online_last), (other, other_last) = look(policy), look(target)
        last_value = None
        if here.last is not None and online_last is not None and other_last is not None:
            last_value = double_q(online_last, other_last, here.last.mask, scale)
        wanted = jax.lax.stop_gradient(
            n_step_returns(
                here.reward,
                here.terminated,
                here.truncated,
                double_q(online, other, here.mask, scale),
                last_value,
                gamma=self.gamma,
                n_step=self.n_step,
            )
        )
        learned = wanted.shape[0]
        value = value_of(online[:learned], here.action[:learned])
        return scale.normalize(wanted) - value, value, wanted


class LearnerState(eqx.Module):
    """The carry of the gradient steps; `priority` is `None` without priorities."""

    learner: Learner
    target: ActorCritic
    priority: Float32[Array, "num_envs starts"] | None
    gradient_steps: Int32[Array, ""]


class LearnFromSequences(eqx.Module):
    """Takes gradient steps on sequences; each device samples from its own environments."""

    loss: SequenceLoss
    sizes: Sizes = eqx.field(static=True)

    def __call__(
        self,
        step: GradientStep,
        state: LearnerState,
        buffer: Buffer,
        rate: Float32[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[LearnerState, StepReport]:
        """The state after the gradient steps of an update, and their report."""
        enough = buffer.filled * self.sizes.num_envs >= self.sizes.learning_starts

        def descend(state: LearnerState, number: Int32[Array, ""]) -> tuple[LearnerState, Any]:
            here = jax.random.fold_in(key, number)
            sample = self._sample(step.mesh, replace(buffer, priority=state.priority), here)
            # Cast first: fewer bytes are gathered if parameters are sharded along `fsdp`.
            target = step.precision.cast_to_compute(state.target)
            gradient, losses, (new,) = step.gradient(
                state.learner, self.loss, sample, target, state.learner.value_scale
            )
            active = enough & jnp.any(sample.valid > 0)
            learner, report = step.apply(state.learner, gradient, losses, rate, active=active)
            applied, steps = report.steps > 0, state.gradient_steps + report.steps
            priority = state.priority
            if priority is not None:
                priority = on_each_device(
                    step.mesh,
                    lambda applied, given: with_priorities(given[0], given[1], given[2], applied),
                    (applied,),
                    (priority, sample, new),
                )
            after = LearnerState(
                learner=learner,
                target=sync_target(
                    state.target, learner.policy, applied & (steps % self.sizes.target_update == 0)
                ),
                priority=priority,
                gradient_steps=steps,
            )
            return after, report

        steps = jnp.arange(self.sizes.train_steps, dtype=jnp.int32)
        return scan_and_sum(descend, state, steps)

    def _sample(self, mesh: Mesh, buffer: Buffer, key: Key[Array, ""]) -> Sample:
        """A sample in which each device draws from its own environments."""
        sizes, count = self.sizes, self.sizes.in_blocks.of_each

        def on_one(sampling: Sampling, given: tuple[Buffer, Any]) -> Sample:
            buffer, keys = given
            return buffer.draw(sampling, count, starts=sizes.starts, window=sizes.window, keys=keys)

        keys = jax.random.split(key, sizes.in_blocks.number)
        return on_each_device(mesh, on_one, (self.loss.sampling,), (buffer, keys))


def sync_target(target: ActorCritic, policy: ActorCritic, due: Bool[Array, ""]) -> ActorCritic:
    """The new target network: `policy` if `due`, else `target`."""
    arrays, code = eqx.partition(target, eqx.is_array)
    newest = eqx.filter(policy, eqx.is_array)
    chosen = jax.tree.map(lambda old, new: jnp.where(due, new, old), arrays, newest)
    return eqx.combine(chosen, code)
