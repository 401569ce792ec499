"""The newest steps of each environment, in a ring on the device."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._acting import LastPosition, Steps
from hackmatrix_rl.algorithms.r2d2._sampling import Sampling
from hackmatrix_rl.env import Environment


class Sample(eqx.Module):
    """Sequences to learn from.

    Attributes:
        steps: each leaf `[sequences, window, ...]`.
        carry: the memory of the network that acted, before the first step.
        environment: the number of each sequence's environment on its device.
        start: where in the ring each begins, in updates.
        weight: how much each counts in the loss, up to a common factor.
        valid: 1, or 0 where nothing could be drawn.
    """

    steps: Steps
    carry: PyTree[Array]
    environment: Int32[Array, " sequences"]
    start: Int32[Array, " sequences"]
    weight: Float32[Array, " sequences"]
    valid: Float32[Array, " sequences"]


class Buffer(eqx.Module):
    """The last steps of some environments. Each has a ring of its own, and is one column of time.

    A sequence begins where an update of the training began: there is the memory kept.

    Attributes:
        steps: each leaf `[num_envs, length, ...]`.
        carry: the memory before each update; each leaf `[num_envs, starts, ...]`.
        priority: of the sequence that begins there; `None` without priorities.
        slot: where the next step goes.
        filled: number of steps of each environment in the ring.
    """

    steps: Steps
    carry: PyTree[Array]
    priority: Float32[Array, "num_envs starts"] | None
    slot: Int32[Array, ""]
    filled: Int32[Array, ""]

    @classmethod
    def empty(
        cls,
        environment: Environment,
        policy: ActorCritic,
        *,
        num_envs: int,
        length: int,
        train_freq: int,
        priorities: bool,
    ) -> "Buffer":
        """A buffer without steps, for `length` steps of each environment: whole updates."""
        shape, starts = (num_envs, length), (num_envs, length // train_freq)
        spec = environment.spec

        def zeros(leaf: Any, axes: tuple[int, int] = shape) -> Array:
            return jnp.zeros((*axes, *leaf.shape), leaf.dtype)

        observation = jax.tree.map(zeros, spec.observation)
        mask = jnp.zeros((*shape, spec.num_actions), bool)
        steps = Steps(
            observation=observation,
            mask=mask,
            action=jnp.zeros(shape, jnp.int32),
            reward=jnp.zeros(shape, jnp.float32),
            terminated=jnp.zeros(shape, bool),
            truncated=jnp.zeros(shape, bool),
            last=LastPosition(observation, mask) if environment.truncates else None,
        )
        carry = jax.tree.map(lambda leaf: zeros(leaf, starts), policy.initial_carry())
        priority = jnp.zeros(starts, jnp.float32) if priorities else None
        return cls(steps, carry, priority, jnp.int32(0), jnp.int32(0))

    def write(self, steps: Steps, carry: PyTree[Array]) -> "Buffer":
        """The buffer with the steps of an update, `[num_envs, train_freq, ...]`, for the oldest.

        A new sequence has the largest priority of its environment, so that it is drawn soon.
        """
        length, count = self.steps.reward.shape[1], steps.reward.shape[1]

        def put(ring: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(ring, new, self.slot, axis=1)

        def put_start(ring: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(ring, new[:, None], start, axis=1)

        start = self.slot // count
        priority = self.priority
        if priority is not None:
            largest = jnp.max(priority, axis=1)
            priority = put_start(priority, jnp.where(largest > 0, largest, 1.0))
        return Buffer(
            steps=jax.tree.map(put, self.steps, steps),
            carry=jax.tree.map(put_start, self.carry, carry),
            priority=priority,
            slot=(self.slot + count) % length,
            filled=jnp.minimum(self.filled + count, length),
        )

    def valid_starts(self, starts: int, window: int) -> Bool[Array, " starts"]:
        """Where in the ring a whole sequence begins; the same for all environments."""
        length = self.steps.reward.shape[1]
        train_freq = length // starts
        oldest = jnp.where(self.filled == length, self.slot, 0) // train_freq
        age = (jnp.arange(starts, dtype=jnp.int32) - oldest) % starts
        return age * train_freq + window <= self.filled

    def draw(
        self,
        sampling: Sampling,
        count: int,
        *,
        starts: int,
        window: int,
        keys: Key[Array, " blocks"],
    ) -> Sample:
        """Sequences at random, `count` of each block.

        The environments are cut into blocks of neighbours, one for each key. What a block gives
        depends on nothing else.
        """
        num_envs, length = self.steps.reward.shape
        blocks = keys.shape[0]
        size = num_envs // blocks
        valid = jnp.broadcast_to(self.valid_starts(starts, window)[None], (size, starts))

        def apart(leaf: Array) -> Array:
            return leaf.reshape(blocks, size, starts)

        place, probability = jax.vmap(
            lambda priority, key: sampling.draw(valid, priority, count, key=key)
        )(jax.tree.map(apart, self.priority), keys)
        first = jnp.arange(0, num_envs, size, dtype=jnp.int32)
        environment = (first[:, None] + place // starts).ravel()
        start = (place % starts).ravel()
        times = start[:, None] * (length // starts) + jnp.arange(window, dtype=jnp.int32)[None]
        where = (environment[:, None], times % length)
        probability = probability.ravel()
        return Sample(
            steps=jax.tree.map(lambda leaf: leaf[where], self.steps),
            carry=jax.tree.map(lambda leaf: leaf[environment, start], self.carry),
            environment=environment,
            start=start,
            weight=sampling.weight(probability, jnp.sum(valid).astype(jnp.float32)),
            valid=(valid[0, start] & (probability > 0)).astype(jnp.float32),
        )


def with_priorities(
    priority: Float32[Array, "num_envs starts"], sample: Sample, new: Float32[Array, " sequences"]
) -> Float32[Array, "num_envs starts"]:
    """The priorities with new ones for the valid sequences of a sample."""
    where = (sample.environment, sample.start)
    kept = jnp.where(sample.valid > 0, new, priority[where])
    # A sequence may be drawn twice. The largest of its numbers is the same in any order.
    return priority.at[where].set(0.0).at[where].max(kept)
