"""Rollouts and batches made by hand."""

import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.agent import EpisodeSums, Rollout


def rollout(reward, value, *, terminated=None, truncated=None, bootstrap=None, last=None):
    """A rollout of which only what advantages depend on matters."""
    reward = jnp.asarray(reward, jnp.float32)
    shape = reward.shape
    zeros = jnp.zeros(shape, jnp.float32)
    never = jnp.zeros(shape, bool)
    nothing = jnp.zeros((), jnp.float32)
    return Rollout(
        observation=zeros[..., None],
        mask=jnp.ones((*shape, 2), bool),
        action=jnp.zeros(shape, jnp.int32),
        log_prob=zeros,
        value=jnp.asarray(value, jnp.float32),
        reward=reward,
        terminated=never if terminated is None else jnp.asarray(terminated),
        truncated=never if truncated is None else jnp.asarray(truncated),
        bootstrap_value=zeros if bootstrap is None else jnp.asarray(bootstrap, jnp.float32),
        initial_carry=(),
        last_value=zeros[0] if last is None else jnp.asarray(last, jnp.float32),
        episodes=EpisodeSums(nothing, nothing, nothing, {}, {}),
    )


def random_rollout(seed: int, num_steps: int = 40, num_envs: int = 6) -> Rollout:
    """Rewards and values of all sizes, and episodes that end in both ways."""
    draw = np.random.default_rng(seed)
    shape = (num_steps, num_envs)
    ends = draw.integers(0, 6, shape)
    truncated = ends == 1
    return rollout(
        reward=draw.standard_t(2, shape),
        value=draw.normal(size=shape),
        terminated=ends == 0,
        truncated=truncated,
        bootstrap=np.where(truncated, draw.normal(size=shape), 0.0),
        last=draw.normal(size=num_envs),
    )
