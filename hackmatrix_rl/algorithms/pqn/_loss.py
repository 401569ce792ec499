"""The loss of PQN."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import Batch, ValueScale, value_of
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of


class QLoss(eqx.Module):
    """Half the mean squared error of the Q-values of the actions taken.

    The targets are `Batch.value_target`; no gradient flows through them.

    Attributes:
        scale: the units of Q-values, for the metrics.
    """

    scale: ValueScale

    def prepare(self, batch: Batch) -> "tuple[QLoss, Batch]":
        """The same loss and batch: a mean needs no preparation (see `PreparedLoss`)."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], dict[str, Float32[Array, ""]]]:
        """The loss, and its metrics by name.

        Args:
            policy: the network, or an evaluator of it.
            batch: the batch.

        Returns:
            The loss, in squared units of the network. The metrics are means over the batch:
            `q_loss` (the loss), `td_error` (absolute, in units of the network), `q_value` and
            `q_target` (in units of reward).
        """
        q_values, _ = evaluator_of(policy).unroll(
            batch.observation, batch.initial_carry, batch.done
        )
        q_value = value_of(q_values, batch.action)
        error = batch.value_target - q_value
        loss = 0.5 * jnp.mean(error**2)
        return loss, {
            "q_loss": loss,
            "td_error": jnp.mean(jnp.abs(error)),
            "q_value": jnp.mean(self.scale.denormalize(q_value)),
            "q_target": jnp.mean(self.scale.denormalize(batch.value_target)),
        }
