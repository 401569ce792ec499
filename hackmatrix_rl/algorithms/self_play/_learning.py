"""Gradient steps on positions from the buffer, on a mesh."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.algorithms.self_play._buffer import Buffer, Outcomes
from hackmatrix_rl.algorithms.self_play._loss import Losses, SearchLoss
from hackmatrix_rl.algorithms.self_play._metrics import Learned
from hackmatrix_rl.algorithms.self_play._sizes import Sizes
from hackmatrix_rl.env import Symmetry
from hackmatrix_rl.training import Learner, filter_scan
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    constrain,
    fsdp_shardings,
    on_each_device,
)

_BUFFER = {"moves": BY_ENVIRONMENT, "slot": REPLICATED, "filled": REPLICATED}
"""How the fields of a buffer are cut over devices."""


class LearnFromBuffer(eqx.Module):
    """Takes gradient steps on positions from the buffer, each device on those of its own games.

    Attributes:
        loss: what to descend.
        symmetry: changes the positions that are learned from; `None`: they stay as they are.
        precision: in which dtype the network computes.
        optimizer: turns gradients into changes of the parameters.
        sizes: of an update.
        mesh: the devices that share the games.
    """

    loss: SearchLoss
    symmetry: Symmetry | None
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    sizes: Sizes = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)

    def __call__(
        self, learner: Learner, buffer: Buffer, rate: Float32[Array, ""], key: Key[Array, ""]
    ) -> tuple[Learner, Learned]:
        """The learner after the gradient steps of an update, and what happened in them.

        Args:
            learner: to improve.
            buffer: the positions.
            rate: factor on the optimizer's changes.
            key: decides what is drawn.
        """
        outcomes = on_each_device(
            self.mesh,
            lambda fields: Buffer(**fields).outcomes(),
            (),
            vars(buffer),
            takes=_BUFFER,
            returns=BY_ENVIRONMENT,
        )

        def step(learner: Learner, number: Int32[Array, ""]) -> tuple[Learner, Learned]:
            here = jax.random.fold_in(key, number)
            gradient, losses = self._gradient(learner, buffer, outcomes, here)
            norm = optax.tree.norm(gradient)
            finite, some = jnp.isfinite(norm), losses.count > 0
            taken, skipped = finite & some, ~finite & some
            learner = learner.step(self.optimizer, gradient, rate, take=taken)
            learner = eqx.tree_at(
                lambda x: (x.scaling, x.skipped),
                learner,
                (
                    self.precision.adjust(learner.scaling, finite),
                    learner.skipped + skipped.astype(jnp.int32),
                ),
            )
            learner = constrain(learner, fsdp_shardings(self.mesh, learner))
            learned = Learned(losses, norm, jnp.int32(1), jnp.int32(0))
            kept: Learned = jax.tree.map(lambda leaf: jnp.where(taken, leaf, 0), learned)
            return learner, eqx.tree_at(lambda x: x.skipped, kept, skipped.astype(jnp.int32))

        steps = jnp.arange(self.sizes.train_steps, dtype=jnp.int32)
        learner, learned = filter_scan(step, learner, steps)
        return learner, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=leaf.dtype), learned)

    def _gradient(
        self, learner: Learner, buffer: Buffer, outcomes: Outcomes, key: Key[Array, ""]
    ) -> tuple[Any, Losses]:
        """The gradient on positions of all devices, and the sums of the losses."""

        def on_one(policy: ActorCritic, scaling: Any, symmetry: Any, loss: Any, given: Any) -> Any:
            fields, outcomes, keys = given
            drawn = Buffer(**fields).draw(outcomes, self.sizes.of_each, symmetry, keys=keys)
            found = self.precision.grad(loss, scaling)(policy, drawn)
            return jax.tree.map(lambda leaf: leaf[None], found)

        gradient, losses = on_each_device(
            self.mesh,
            on_one,
            (learner.policy, learner.scaling, self.symmetry, self.loss),
            (vars(buffer), outcomes, jax.random.split(key, self.sizes.blocks)),
            takes=(_BUFFER, BY_ENVIRONMENT, BY_ENVIRONMENT),
            returns=BY_ENVIRONMENT,
        )
        sums: Losses = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), losses)
        # Each device has the mean over its positions, with 0 where one does not count.
        share = jnp.maximum(sums.count, 1.0) / self.sizes.training_batch_size
        gradient = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0) / share, gradient)
        return constrain(gradient, fsdp_shardings(self.mesh, gradient)), sums
