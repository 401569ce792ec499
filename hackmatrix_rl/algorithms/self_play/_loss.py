"""What self-play minimises."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.algorithms.self_play._buffer import Sample
from hackmatrix_rl.training import mean_weights

_SMALLEST = float(np.finfo(np.float32).tiny)


class Losses(eqx.Module):
    """Means over the valid positions.

    Attributes:
        policy_loss: cross-entropy of the network's policy to the search's weights, in nats.
        value_loss: squared error of the value.
        entropy: of the network's policy, in nats.
        search_entropy: of the search's weights, in nats.
    """

    policy_loss: Float32[Array, "*steps"]
    value_loss: Float32[Array, "*steps"]
    entropy: Float32[Array, "*steps"]
    search_entropy: Float32[Array, "*steps"]


class SearchLoss(eqx.Module):
    """Cross-entropy to the policy that the search found, and the squared error of the value.

    Source: Silver et al. 2018, "A general reinforcement learning algorithm that masters chess,
    shogi, and Go through self-play".

    Attributes:
        vf_coef: weight of the value loss.
    """

    vf_coef: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not self.vf_coef >= 0:
            raise ValueError(f"vf_coef must not be negative, but is {self.vf_coef}")

    def prepare(self, sample: Sample) -> tuple["SearchLoss", Sample]:
        """The same loss, and a sample whose mean is that over its valid positions."""
        return self, replace(sample, valid=mean_weights(sample.valid))

    def __call__(
        self, policy: ActorCritic | Evaluator, sample: Sample
    ) -> tuple[Float32[Array, ""], Losses]:
        """The mean over all positions; one that is not valid adds nothing.

        Args:
            policy: the network, or an evaluator of it.
            sample: what to learn from.
        """
        evaluator = evaluator_of(policy)
        one_step = jax.tree.map(lambda leaf: leaf[None], sample.observation)
        carry, done = evaluator.policy.initial_carry(), jnp.zeros((1, sample.value.size), bool)
        logits, value = (leaf[0] for leaf in evaluator.unroll(one_step, carry, done))
        pi = MaskedCategorical(logits, sample.mask)
        found = MaskedCategorical(_logarithm(sample.weights), sample.mask)
        finite = jnp.where(pi.support, pi.log_probs, 0.0)
        losses = Losses(
            policy_loss=-jnp.sum(sample.weights * finite, axis=-1),
            value_loss=(value - sample.value) ** 2,
            entropy=pi.entropy(),
            search_entropy=found.entropy(),
        )
        means = jax.tree.map(lambda leaf: jnp.mean(sample.valid * leaf), losses)
        return means.policy_loss + self.vf_coef * means.value_loss, means


def _logarithm(weights: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return jnp.log(jnp.maximum(weights, _SMALLEST))
