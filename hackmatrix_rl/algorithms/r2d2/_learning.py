"""Gradient steps on sequences from the buffer, on a mesh."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Drawn, with_priorities
from hackmatrix_rl.algorithms.r2d2._loss import Losses, SequenceLoss
from hackmatrix_rl.algorithms.r2d2._metrics import Learned
from hackmatrix_rl.algorithms.r2d2._sampling import Sampling
from hackmatrix_rl.algorithms.r2d2._sizes import Sizes
from hackmatrix_rl.training import Learner, add_up, filter_scan
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    constrain,
    fsdp_shardings,
    on_each_device,
)

_BUFFER = {
    "steps": BY_ENVIRONMENT,
    "carry": BY_ENVIRONMENT,
    "priority": BY_ENVIRONMENT,
    "slot": REPLICATED,
    "filled": REPLICATED,
}
"""How the fields of a buffer are cut over devices."""


class Student(eqx.Module):
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
        precision: in which dtype the networks compute.
        optimizer: turns gradients into changes of the parameters.
        sizes: of an update.
        mesh: the devices that share the environments.
    """

    loss: SequenceLoss
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    sizes: Sizes = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)

    def __call__(
        self,
        learner: Learner,
        target: ActorCritic,
        gradient_steps: Int32[Array, ""],
        buffer: Buffer,
        rate: Float32[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[Student, Learned]:
        """What the gradient steps of an update make, and what happened in them.

        Args:
            learner: to improve.
            target: the target network.
            gradient_steps: taken so far.
            buffer: the steps of the environments.
            rate: factor on the optimizer's changes.
            key: decides what is drawn.
        """
        played = buffer.filled * self.sizes.num_envs
        begins = played >= self.sizes.learning_starts

        def step(student: Student, number: Int32[Array, ""]) -> tuple[Student, Learned]:
            here = jax.random.fold_in(key, number)
            drawn = self._draw(buffer, student.priority, here)
            gradient, losses, priority = self._gradient(
                student, drawn, self._weights(buffer, drawn)
            )
            norm = optax.tree.norm(gradient)
            finite, some = jnp.isfinite(norm), (losses.count > 0) & begins
            taken, skipped = finite & some, ~finite & some
            learner = student.learner.step(self.optimizer, gradient, rate, take=taken)
            learner = eqx.tree_at(
                lambda x: (x.scaling, x.skipped),
                learner,
                (
                    self.precision.adjust(learner.scaling, finite),
                    learner.skipped + skipped.astype(jnp.int32),
                ),
            )
            learner = constrain(learner, fsdp_shardings(self.mesh, learner))
            steps = student.gradient_steps + taken.astype(jnp.int32)
            due = taken & (steps % self.sizes.target_update == 0)
            after = Student(
                learner=learner,
                target=_renewed(student.target, learner.policy, due),
                priority=self._priorities(student.priority, drawn, priority, taken),
                gradient_steps=steps,
            )
            learned = Learned(losses, norm, jnp.int32(1), jnp.int32(0))
            kept: Learned = jax.tree.map(lambda leaf: jnp.where(taken, leaf, 0), learned)
            return after, eqx.tree_at(lambda x: x.skipped, kept, skipped.astype(jnp.int32))

        steps = jnp.arange(self.sizes.train_steps, dtype=jnp.int32)
        student = Student(learner, target, buffer.priority, gradient_steps)
        student, learned = filter_scan(step, student, steps)
        return student, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=leaf.dtype), learned)

    def _draw(
        self, buffer: Buffer, priority: Float32[Array, "num_envs starts"] | None, key: Any
    ) -> Drawn:
        """Sequences of all devices, each from its own environments."""
        sizes = self.sizes

        def on_one(sampling: Sampling, given: Any) -> Any:
            fields, priority, keys = given
            own = Buffer(**{**fields, "priority": priority})
            return vars(
                own.draw(
                    sampling, sizes.of_each, starts=sizes.starts, window=sizes.window, keys=keys
                )
            )

        fields = on_each_device(
            self.mesh,
            on_one,
            (self.loss.sampling,),
            (vars(buffer), priority, jax.random.split(key, sizes.blocks)),
            takes=(_BUFFER, BY_ENVIRONMENT, BY_ENVIRONMENT),
            returns=BY_ENVIRONMENT,
        )
        return Drawn(**fields)

    def _weights(self, buffer: Buffer, drawn: Drawn) -> Float32[Array, " sequences"]:
        """How much each sequence counts; the one that counts most has 1."""
        sizes = self.sizes
        there = jnp.sum(buffer.there(sizes.starts, sizes.window), dtype=jnp.int32)
        in_block = (there * (sizes.num_envs // sizes.blocks)).astype(jnp.float32)
        weight = self.loss.sampling.weight(drawn.probability, in_block)
        counted = jnp.where(drawn.counts > 0, weight, 0.0)
        largest = jnp.max(counted)
        return counted / jnp.where(largest > 0, largest, 1.0)

    def _gradient(
        self, student: Student, drawn: Drawn, weight: Float32[Array, " sequences"]
    ) -> tuple[Any, Losses, Float32[Array, " sequences"] | None]:
        """The gradient on the sequences of all devices, the sums of the losses, and priorities."""

        def on_one(
            policy: ActorCritic,
            target: ActorCritic,
            scale: ValueScale,
            scaling: Any,
            loss: SequenceLoss,
            given: Any,
        ) -> Any:
            gradient_of = self.precision.grad(loss, scaling)

            def of_part(given: Any) -> Any:
                fields, weight = given
                gradient, (losses, priority) = gradient_of(
                    policy, target, scale, Drawn(**fields), weight
                )
                return (gradient, losses), priority

            parts = self.sizes.grad_accum
            if parts == 1:
                (gradient, losses), priority = of_part(given)
            else:
                apart = jax.tree.map(lambda leaf: leaf.reshape(parts, -1, *leaf.shape[1:]), given)
                (sums, losses), stacked = add_up(of_part, apart)
                gradient = jax.tree.map(lambda leaf: leaf / parts, sums)
                priority = jax.tree.map(jnp.ravel, stacked)
            return jax.tree.map(lambda leaf: leaf[None], (gradient, losses)), priority

        learner = student.learner
        # Cast first: then less is gathered if parameters are cut along `fsdp`.
        target = self.precision.cast_to_compute(student.target)
        (gradient, losses), priority = on_each_device(
            self.mesh,
            on_one,
            (learner.policy, target, learner.value_scale, learner.scaling, self.loss),
            (vars(drawn), weight),
            takes=(BY_ENVIRONMENT, BY_ENVIRONMENT),
            returns=BY_ENVIRONMENT,
        )
        sums: Losses = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), losses)
        # Each device has the mean over its sequences, with 0 where one does not count.
        share = jnp.maximum(sums.count, 1.0) / self.sizes.sequence_batch_size
        gradient = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0) / share, gradient)
        return constrain(gradient, fsdp_shardings(self.mesh, gradient)), sums, priority

    def _priorities(
        self,
        priority: Float32[Array, "num_envs starts"] | None,
        drawn: Drawn,
        new: Float32[Array, " sequences"] | None,
        taken: Bool[Array, ""],
    ) -> Float32[Array, "num_envs starts"] | None:
        """The priorities after a gradient step; as they were where none was taken."""
        if priority is None:
            return None
        written: Float32[Array, "num_envs starts"] = on_each_device(
            self.mesh,
            lambda given: with_priorities(given[0], Drawn(**given[1]), given[2]),
            (),
            (priority, vars(drawn), new),
            takes=(BY_ENVIRONMENT, BY_ENVIRONMENT, BY_ENVIRONMENT),
            returns=BY_ENVIRONMENT,
        )
        return jnp.where(taken, written, priority)


def _renewed(target: ActorCritic, policy: ActorCritic, due: Bool[Array, ""]) -> ActorCritic:
    """The target network, or the network itself where it is due."""
    arrays, code = eqx.partition(target, eqx.is_array)
    newest = eqx.filter(policy, eqx.is_array)
    chosen = jax.tree.map(lambda old, new: jnp.where(due, new, old), arrays, newest)
    renewed: ActorCritic = eqx.combine(chosen, code)
    return renewed
