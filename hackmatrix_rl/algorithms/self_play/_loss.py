"""What self-play minimises."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._buffer import Drawn

_SMALLEST = float(np.finfo(np.float32).tiny)


class Losses(eqx.Module):
    """Sums over positions.

    Attributes:
        policy_loss: cross-entropy of the network's policy to the search's weights, in nats.
        value_loss: squared error of the value.
        entropy: of the network's policy, in nats.
        search_entropy: of the search's weights, in nats.
        count: number of positions.
    """

    policy_loss: Float32[Array, "*steps"]
    value_loss: Float32[Array, "*steps"]
    entropy: Float32[Array, "*steps"]
    search_entropy: Float32[Array, "*steps"]
    count: Float32[Array, "*steps"]


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

    def __call__(self, policy: ActorCritic, drawn: Drawn) -> tuple[Float32[Array, ""], Losses]:
        """The mean over all drawn positions; a position that does not count adds nothing.

        Args:
            policy: the network.
            drawn: what to learn from.
        """
        logits, value, _ = jax.vmap(policy, in_axes=(0, None))(
            drawn.observation, policy.initial_carry()
        )
        chances = MaskedCategorical(logits, drawn.mask)
        found = MaskedCategorical(_logarithm(drawn.weights), drawn.mask)
        finite = jnp.where(chances.support, chances.log_probs, 0.0)
        losses = Losses(
            policy_loss=-jnp.sum(drawn.weights * finite, axis=-1),
            value_loss=(value - drawn.value) ** 2,
            entropy=chances.entropy(),
            search_entropy=found.entropy(),
            count=jnp.ones_like(value),
        )
        sums = jax.tree.map(lambda leaf: jnp.sum(drawn.counts * leaf), losses)
        total = sums.policy_loss + self.vf_coef * sums.value_loss
        return total / drawn.counts.size, sums


def _logarithm(weights: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return jnp.log(jnp.maximum(weights, _SMALLEST))
