"""What Q-values should be."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from hackmatrix_rl.agent import ValueScale, best_action, value_of


def double_q(
    online: Float32[Array, "time batch num_actions"],
    target: Float32[Array, "time batch num_actions"],
    mask: Bool[Array, "time batch num_actions"],
    scale: ValueScale,
) -> Float32[Array, "time batch"]:
    """Double-Q values of positions, in units of reward.

    Source: van Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".

    Args:
        online: Q-values of the network that learns; it chooses among the legal actions.
        target: Q-values of the target network; it judges the choice.
        mask: the legal actions.
        scale: the units of both.
    """
    return scale.denormalize(value_of(target, best_action(online, mask)))


def n_step_returns(
    reward: Float32[Array, "time batch"],
    terminated: Bool[Array, "time batch"],
    truncated: Bool[Array, "time batch"],
    value: Float32[Array, "time batch"],
    last_value: Float32[Array, "time batch"] | None,
    *,
    gamma: float,
    n_step: int,
) -> Float32[Array, "fewer batch"]:
    """N-step returns: discounted rewards of `n_step` steps, and a bootstrap value.

    Within an episode, the value is that of the position `n_step` later. Where a limit cuts the
    episode before, it is that of the episode's last position. Where the rules end it, nothing
    follows. Nothing comes from the next episode.

    Args:
        reward: of each step.
        terminated: the rules ended the episode with this step.
        truncated: a limit cut the episode after this step.
        value: of each step's position, in units of reward.
        last_value: of the position that each step led to, before any reset; `None` if no episode
            is truncated.
        gamma: discount.
        n_step: number of rewards.

    Returns:
        The returns of all steps but the last `n_step`.
    """
    cut = jnp.zeros_like(value) if last_value is None else last_value
    found = value
    for _ in range(n_step):
        some = found.shape[0] - 1
        onwards = jnp.where(truncated[:some], cut[:some], found[1:])
        found = reward[:some] + gamma * jnp.where(terminated[:some], 0.0, onwards)
    return found
