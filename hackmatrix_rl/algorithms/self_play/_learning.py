"""The gradient steps of an update of self-play."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl.algorithms.self_play._buffer import Buffer, Outcomes, Sample
from hackmatrix_rl.algorithms.self_play._loss import SearchLoss
from hackmatrix_rl.algorithms.self_play._sizes import Sizes
from hackmatrix_rl.env import Symmetry
from hackmatrix_rl.training import GradientStep, Learner, StepReport, scan_and_sum
from hackmatrix_rl.training.sharding import on_each_device


class LearnFromBuffer(eqx.Module):
    """Takes gradient steps on positions from the buffer, each device on those of its own games.

    Attributes:
        loss: what to descend.
        symmetry: changes the positions that are learned from; `None`: they stay as they are.
        step: the gradient step.
        sizes: of an update.
    """

    loss: SearchLoss
    symmetry: Symmetry | None
    step: GradientStep
    sizes: Sizes = eqx.field(static=True)

    def __call__(
        self, learner: Learner, buffer: Buffer, rate: Float32[Array, ""], key: Key[Array, ""]
    ) -> tuple[Learner, StepReport]:
        """The learner after the gradient steps of an update, and what happened in them.

        Args:
            learner: to improve.
            buffer: the positions.
            rate: factor on the optimizer's changes.
            key: decides what is drawn.
        """
        mesh, sizes = self.step.mesh, self.sizes
        outcomes = on_each_device(mesh, lambda buffer: buffer.outcomes(), (), buffer)

        def draw(symmetry: Symmetry | None, given: tuple[Buffer, Outcomes, Any]) -> Sample:
            buffer, outcomes, keys = given
            return buffer.draw(outcomes, sizes.of_each, symmetry, keys=keys)

        def descend(learner: Learner, number: Int32[Array, ""]) -> tuple[Learner, StepReport]:
            keys = jax.random.split(jax.random.fold_in(key, number), sizes.blocks)
            sample = on_each_device(mesh, draw, (self.symmetry,), (buffer, outcomes, keys))
            gradient, losses, _ = self.step.gradient(learner, self.loss, sample)
            active = jnp.any(sample.valid > 0)
            return self.step.apply(learner, gradient, losses, rate, active=active)

        steps = jnp.arange(sizes.train_steps, dtype=jnp.int32)
        return scan_and_sum(descend, learner, steps)
