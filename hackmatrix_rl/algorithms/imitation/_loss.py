"""The loss of imitation: cross-entropy to what the teacher does, or would do."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import Batch, LossMetrics, MaskedCategorical, Unrolled
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of


class CloneLoss(eqx.Module):
    """Cross-entropy of the student's distribution over the legal actions to the teacher's action.

    Where the batch has the teacher's probabilities (`Batch.teacher_log_probs`), they are what is
    learned instead of the action.

    The value learns the targets of the batch, which belong to whoever played.

    Attributes:
        vf_coef: weight of the value loss.
        special_from: actions from this number on have `special_weight`; `None`: all weigh 1.
        special_weight: their weight.
    """

    vf_coef: float = eqx.field(static=True, default=0.5)
    special_from: int | None = eqx.field(static=True, default=None)
    special_weight: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not self.vf_coef >= 0:
            raise ValueError(f"vf_coef must not be negative, but is {self.vf_coef}")
        if not self.special_weight > 0:
            raise ValueError(f"special_weight must be positive, not {self.special_weight}")

    def prepare(self, batch: Batch) -> tuple["CloneLoss", Batch]:
        """The same loss and batch: the loss of a batch is the mean over its equal parts."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss of a policy on a batch whose actions are the teacher's, and its metrics.

        `LossMetrics.policy_loss` is the cross-entropy, each label with its weight. What compares
        the policy with the one that acted is 0.

        Args:
            policy: the network, or an evaluator of it.
            batch: the batch.
        """
        found = Unrolled.of(evaluator_of(policy), batch)
        chances = MaskedCategorical(found.logits, batch.mask)
        surprise = _surprise(chances, batch)
        if self.special_from is not None:
            special = batch.action >= self.special_from
            surprise = surprise * jnp.where(special, self.special_weight, 1.0)
        cross_entropy = jnp.mean(surprise)
        value_loss = found.value_loss(batch)
        nothing = jnp.zeros((), jnp.float32)
        return cross_entropy + self.vf_coef * value_loss, LossMetrics(
            policy_loss=cross_entropy,
            value_loss=value_loss,
            entropy=jnp.mean(chances.entropy()),
            approx_kl=nothing,
            clip_fraction=nothing,
        )


def _surprise(chances: MaskedCategorical, batch: Batch) -> Float32[Array, "num_steps batch"]:
    """The cross-entropy of each position."""
    if batch.teacher_log_probs is None:
        return -chances.log_prob(batch.action)
    finite = jnp.where(chances.support, chances.log_probs, 0.0)
    return -jnp.sum(jnp.exp(batch.teacher_log_probs) * finite, axis=-1)
