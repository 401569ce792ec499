"""Rollouts and batches made by hand, a network that shows nothing of itself, a loss of ones own."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.agent import AuxiliaryTargets, Batch, EpisodeSums, PPOLoss, Rollout
from hackmatrix_rl.agent.networks import NETWORKS, ActorCritic

ON_ANY_BOARD = [name for name in NETWORKS if name != "graph"]
"""The networks that take any environment with a board; `graph` takes the clique game only."""


class Closed(ActorCritic):
    """A network of which nothing is known but its memory and its call."""

    inner: ActorCritic

    def initial_carry(self):
        return self.inner.initial_carry()

    def __call__(self, observation, carry):
        return self.inner(observation, carry)


def unchanged(loss, metrics, policy, batch):
    return loss, metrics


class OwnLoss(eqx.Module):
    """PPO's loss as users write theirs: a call, which does not say what it must see as a whole.

    `change` makes another loss and other metrics of it.
    """

    base: PPOLoss = PPOLoss()
    change: Callable = eqx.field(static=True, default=unchanged)

    @property
    def needs_old_log_probs(self):
        return self.base.needs_old_log_probs

    def __call__(self, policy, batch):
        return self.change(*self.base(policy, batch), policy, batch)


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


def random_batch(policy, spec, *, seed: int = 0, num_steps: int = 6, num_envs: int = 8) -> Batch:
    """A minibatch of noise, for any policy over numbers, in which episodes end and masks bite."""
    draw = np.random.default_rng(seed)
    shape = (num_steps, num_envs)

    def normal(*more):
        return jnp.asarray(draw.normal(size=(*shape, *more)), jnp.float32)

    action = draw.integers(0, spec.num_actions, shape)
    mask = draw.random((*shape, spec.num_actions)) < 0.7
    np.put_along_axis(mask, action[..., None], True, axis=-1)
    return Batch(
        observation=normal(*spec.observation.shape),
        mask=jnp.asarray(mask),
        action=jnp.asarray(action, jnp.int32),
        log_prob=-1.0 + 0.1 * normal(),
        value=normal(),
        done=jnp.asarray(draw.random(shape) < 0.2),
        initial_carry=jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf[None], (num_envs, *leaf.shape)),
            policy.initial_carry(),
        ),
        advantage=2.0 + 3.0 * normal(),
        value_target=normal(),
        auxiliary=AuxiliaryTargets(
            terms=normal(len(spec.terms)).astype(jnp.float16),
            terminated=jnp.asarray(draw.random(shape) < 0.2),
        ),
    )
