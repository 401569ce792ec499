"""The loss of PQN."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import Batch, QLosses, ValueScale, value_of
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of


class QLoss(eqx.Module):
    """Half the mean squared error of the Q-values of the actions taken.

    The targets are `Batch.value_target`. They are data: no gradient flows through them.

    Attributes:
        scale: the units of Q-values, for the metrics.
    """

    scale: ValueScale

    def prepare(self, batch: Batch) -> "tuple[QLoss, Batch]":
        """The same loss and batch: the mean over equal parts is the loss of the whole."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], QLosses]:
        """The loss of a network on a batch, and its metrics.

        Args:
            policy: the network, or an evaluator of it; its logits are the Q-values.
            batch: the batch.
        """
        seen = batch.observation, batch.initial_carry, batch.done
        q_value = value_of(evaluator_of(policy).unroll(*seen)[0], batch.action)
        error = batch.value_target - q_value
        loss = 0.5 * jnp.mean(error**2)
        return loss, QLosses(
            q_loss=loss,
            td_error=jnp.mean(jnp.abs(error)),
            q_value=jnp.mean(self.scale.denormalize(q_value)),
            q_target=jnp.mean(self.scale.denormalize(batch.value_target)),
        )
