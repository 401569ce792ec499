"""The policy that a search makes of a prior and of the values that it found."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.agent import ValueScale

_ILLEGAL = np.finfo(np.float32).min
"""The logit of an illegal action: its probability is exactly 0, and sums with it stay finite."""
_TINY = np.finfo(np.float32).tiny
"""The least weight of an action that was visited."""


@final
class Improvement(eqx.Module):
    """Converts action values to logits, which are added to the prior's.

    Values are compared in the units in which the network learns them (`ValueScale`), where they
    have a standard deviation of about 1. So a victory of 500 does not flatten what else there is,
    as it would between the least and the greatest value of a node, and a difference that is noise
    to the network stays below its prior.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", equation 8 and
    appendix D.

    Attributes:
        scale: the units.
        visits: added to the most visits of an action.
        weight: what a unit of value is worth in logits, for each visit.
    """

    scale: ValueScale
    visits: float = eqx.field(static=True, default=50.0)
    weight: float = eqx.field(static=True, default=1.0)

    def __call__(
        self,
        values: Float32[Array, " num_actions"],
        visits: Int32[Array, " num_actions"],
        logits: Float32[Array, " num_actions"],
        raw: Float32[Array, ""],
    ) -> Float32[Array, " num_actions"]:
        """The term to add to the logits.

        Args:
            values: of the actions that were visited, in units of reward.
            visits: of each action.
            logits: of the prior.
            raw: the network's value of the state, in units of reward.
        """
        most = jnp.max(visits).astype(jnp.float32)
        completed = self.scale.normalize(_completed(values, visits, logits, raw))
        return (self.visits + most) * self.weight * completed


def _completed(
    values: Float32[Array, " num_actions"],
    visits: Int32[Array, " num_actions"],
    logits: Float32[Array, " num_actions"],
    raw: Float32[Array, ""],
) -> Float32[Array, " num_actions"]:
    """The values, and for actions without a visit what a mixture of the others says."""
    visited = visits > 0
    prior = jnp.where(visited, jnp.maximum(jax.nn.softmax(logits), _TINY), 0.0)
    mean = jnp.sum(prior * jnp.where(visited, values, 0.0)) / jnp.maximum(jnp.sum(prior), _TINY)
    total = jnp.sum(visits).astype(jnp.float32)
    mixed = (raw + total * mean) / (1.0 + total)
    return jnp.where(visited, values, mixed)


def masked_logits(
    logits: Float32[Array, " num_actions"], legal: Bool[Array, " num_actions"]
) -> Float32[Array, " num_actions"]:
    """The logits with the smallest float32 for illegal actions, and 0 as the largest of the others.

    Args:
        logits: of all actions.
        legal: the legal actions.
    """
    largest = jnp.max(jnp.where(legal, logits, _ILLEGAL))
    return jnp.where(legal, logits - largest, _ILLEGAL)
