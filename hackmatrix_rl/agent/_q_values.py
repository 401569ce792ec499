"""Q-values of legal actions, and epsilon-greedy actions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.agent._distribution import MaskedCategorical


def best_action(
    values: Float32[Array, "*axes num_actions"], mask: Bool[Array, "*axes num_actions"]
) -> Int32[Array, "*axes"]:
    """The legal action of the largest value, the first of several; the first if none is legal."""
    return MaskedCategorical(values, mask).mode()


def value_of(
    values: Float32[Array, "*axes num_actions"], action: Int32[Array, "*axes"]
) -> Float32[Array, "*axes"]:
    """The value of one action."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


def epsilon_greedy(
    dist: MaskedCategorical, epsilon: Float32[Array, ""], *, key: Key[Array, ""]
) -> Int32[Array, ""]:
    """A uniformly random legal action with probability `epsilon`, else the most probable one.

    Args:
        dist: the distribution over actions. If its logits are Q-values, its mode is the greedy
            action.
        epsilon: the probability of a random action.
        key: source of the randomness.
    """
    whether, which = jax.random.split(key)
    anything = MaskedCategorical(jnp.zeros_like(dist.log_probs), dist.support).sample(which)
    explores = jax.random.uniform(whether) < epsilon
    return jnp.where(explores, anything, dist.mode())
