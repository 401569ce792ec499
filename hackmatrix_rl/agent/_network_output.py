"""The outputs of a network on a batch, and its auxiliary loss."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from hackmatrix_rl.agent._auxiliary import AuxiliaryLoss, AuxiliaryMetrics
from hackmatrix_rl.agent._batch import Batch
from hackmatrix_rl.agent.networks import Evaluator, TrunkEvaluator


class NetworkOutput(eqx.Module):
    """The outputs of a network on a batch."""

    #: Parameters of the distributions of actions, such as logits.
    logits: Float32[Array, "num_steps batch num_parameters"]
    value: Float32[Array, "num_steps batch"]  #: In units of the network.
    #: The trunk's output; `None` for a network without a trunk.
    hidden: Float[Array, "num_steps batch width"] | None
    #: The loss of the network's `ValueHead`; `None` for a scalar value head, which learns by
    #: squared errors.
    own_value_loss: Float32[Array, "num_steps batch"] | None

    @staticmethod
    def from_policy(policy: Evaluator, batch: Batch) -> "NetworkOutput":
        """Evaluates a policy on a batch."""
        sequences = batch.observation, batch.initial_carry, batch.done
        if not isinstance(policy, TrunkEvaluator):
            return NetworkOutput(*policy.unroll(*sequences), None, None)
        hidden = policy.unroll_trunk(*sequences)
        own = policy.value_loss(hidden, batch.value_target)
        return NetworkOutput(*policy.apply_heads(hidden), hidden, own)

    def value_loss(self, batch: Batch, clip: float | None = None) -> Float32[Array, ""]:
        """Mean value loss: half the squared error, or what the network's `ValueHead` returns.

        Raises:
            ValueError: `clip` is given (see `PPOLoss.value_clip`), but the network's `ValueHead`
                defines the loss.
        """
        if self.own_value_loss is not None:
            if clip is not None:
                raise ValueError(
                    f"value_clip={clip} clips squared errors, but the network's value head defines "
                    "another loss. Use value_clip=None"
                )
            return jnp.mean(self.own_value_loss)
        error = (self.value - batch.value_target) ** 2
        if clip is not None:
            moved = jnp.clip(self.value - batch.value, -clip, clip)
            error = jnp.maximum(error, (batch.value + moved - batch.value_target) ** 2)
        return 0.5 * jnp.mean(error)


def auxiliary_loss(
    loss: AuxiliaryLoss, policy: Evaluator, output: NetworkOutput, batch: Batch
) -> tuple[Float32[Array, ""], AuxiliaryMetrics]:
    """The auxiliary loss of a policy on a batch, and its metrics."""
    if not isinstance(policy, TrunkEvaluator) or policy.auxiliary is None:
        raise ValueError(
            "the auxiliary loss needs a policy with an auxiliary head: see add_auxiliary_head"
        )
    if batch.auxiliary is None:
        raise ValueError("the auxiliary loss needs a rollout that keeps the reward's terms")
    assert output.hidden is not None  # the policy is a TrunkEvaluator
    given = batch.action, batch.auxiliary, batch.number
    return loss(policy.auxiliary, output.hidden, *given, done=batch.done)
