"""The newest steps of each environment, in a ring on the device, and how they are sampled."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._acting import LastPosition, Steps
from hackmatrix_rl.env import Environment
from hackmatrix_rl.system.errors import share
from hackmatrix_rl.training import advance_ring, empty_ring, oldest_slot, write_ring

SMALLEST_PRIORITY = 1e-6
"""Added to each priority, so a sequence without an error keeps a positive probability."""

_TINY = float(np.finfo(np.float32).tiny)

Starts = Bool[Array, "environments starts"]
Priorities = Float32[Array, "environments starts"]
Sequences = Float32[Array, " sequences"]
Drawn = tuple[Int32[Array, " count"], Float32[Array, " count"]]


class Sampling(eqx.Module):
    """Draws sequences from a block of environments."""

    @property
    def uses_priorities(self) -> bool:
        """Whether the buffer keeps a priority for each sequence."""
        return False

    @abstractmethod
    def draw(
        self, there: Starts, priority: Priorities | None, count: int, *, key: Key[Array, ""]
    ) -> Drawn:
        """A random sample of sequences: `count` draws, with replacement, where `there` is true.

        Returns:
            The indices of the sequences in the flattened `there`, and the probability of each. Both
            are undefined if `there` is nowhere true.
        """

    def weight(self, probability: Sequences, number: Float32[Array, ""]) -> Sequences:
        """The importance weight of each sampled sequence, up to a common factor; by default equal.

        `probability` is the probability of each draw, `number` the number of stored sequences of a
        block.
        """
        return jnp.ones_like(probability)

    def priority(self, td_error: Float32[Array, "time sequences"]) -> Sequences | None:
        """The priorities of sequences with these errors; `None` unless `uses_priorities`."""
        return None


@final
class Uniform(Sampling):
    """Samples all sequences with equal probability."""

    def draw(
        self, there: Starts, priority: Priorities | None, count: int, *, key: Key[Array, ""]
    ) -> Drawn:
        flat = there.ravel()
        number = jnp.maximum(jnp.sum(flat, dtype=jnp.int32), 1)
        which = jax.random.randint(key, (count,), 0, number)
        # The index of the n-th sequence: there [0 1 0 1] -> cumsum [0 1 1 2], and which 1 -> 3.
        found = jnp.searchsorted(jnp.cumsum(flat, dtype=jnp.int32), which, side="right")
        place = jnp.minimum(found.astype(jnp.int32), flat.size - 1)
        return place, jnp.full((count,), 1.0, jnp.float32) / number.astype(jnp.float32)


@final
class Prioritized(Sampling):
    """Samples sequences with large errors more often, with importance weights.

    Source: Schaul et al. 2016, "Prioritized experience replay"; Kapturowski et al. 2019,
    "Recurrent experience replay in distributed reinforcement learning" (the priority of a
    sequence, and the defaults).

    Attributes:
        exponent: exponent of the priorities: 0 for uniform sampling, 1 for proportional sampling.
        correction: exponent of the importance weights: 0 for none, 1 for full correction.
        largest: weight of the largest TD error of a sequence in its priority; the mean TD error has
            the rest.

    Raises:
        TypeError: an argument is not a number.
        ValueError: an argument is not in [0, 1].
    """

    exponent: float = eqx.field(static=True, default=0.9)
    correction: float = eqx.field(static=True, default=0.6)
    largest: float = eqx.field(static=True, default=0.9)

    def __check_init__(self) -> None:
        for name in ("exponent", "correction", "largest"):
            share(name, getattr(self, name))

    @property
    def uses_priorities(self) -> bool:
        return True

    def draw(
        self, there: Starts, priority: Priorities | None, count: int, *, key: Key[Array, ""]
    ) -> Drawn:
        assert priority is not None
        mass = jnp.where(there, priority**self.exponent, 0.0).ravel()
        sums = jnp.cumsum(mass)
        lots = jax.random.uniform(key, (count,)) * sums[-1]
        found = jnp.searchsorted(sums, lots, side="right").astype(jnp.int32)
        place = jnp.minimum(found, mass.size - 1)
        return place, mass[place] / jnp.maximum(sums[-1], _TINY)

    def weight(self, probability: Sequences, number: Float32[Array, ""]) -> Sequences:
        """Importance weights: `(number * probability) ** -correction`."""
        relative = jnp.maximum(probability * number, _TINY)
        return relative**-self.correction

    def priority(self, td_error: Float32[Array, "time sequences"]) -> Sequences | None:
        """A weighted mean of the largest and the mean TD error of each sequence; above 0."""
        errors = jnp.abs(td_error)
        mean, largest = jnp.mean(errors, axis=0), jnp.max(errors, axis=0)
        return self.largest * largest + (1 - self.largest) * mean + SMALLEST_PRIORITY


class Sample(eqx.Module):
    """A batch of sequences, `[sequences, window, ...]`.

    `carry` is the stored memory before the first step. `environment` is the index of the
    environment on its device, and `start` is the start in the ring, in updates. `weight` is the
    importance weight, up to a common factor. `valid` is 1, or 0 where nothing could be drawn.
    """

    steps: Steps
    carry: PyTree[Array]
    environment: Int32[Array, " sequences"]
    start: Int32[Array, " sequences"]
    weight: Sequences
    valid: Sequences


class Buffer(eqx.Module):
    """A replay buffer with the newest steps of each environment, in a ring per environment.

    A sequence starts where an update of the training started, because the memory is stored there.

    Attributes:
        steps: each leaf `[num_envs, length, ...]`.
        carry: the memory before each update; each leaf `[num_envs, starts, ...]`.
        priority: the priority of the sequence at each start; `None` without priorities.
        slot: the slot of the next step.
        filled: number of steps of each environment in the ring.
    """

    steps: Steps
    carry: PyTree[Array]
    priority: Priorities | None
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
        """An empty buffer for `length` steps of each environment, a multiple of `train_freq`."""
        shape, starts = (num_envs, length), (num_envs, length // train_freq)
        spec = environment.spec
        observation = empty_ring(spec.observation, *shape)
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
        carry = empty_ring(policy.initial_carry(), *starts)
        priority = jnp.zeros(starts, jnp.float32) if priorities else None
        return cls(steps, carry, priority, jnp.int32(0), jnp.int32(0))

    def write(self, steps: Steps, carry: PyTree[Array]) -> "Buffer":
        """The buffer with the steps of an update, `[num_envs, train_freq, ...]`, over the oldest.

        A new sequence gets the largest priority of its environment.
        """
        length, count = self.steps.reward.shape[1], steps.reward.shape[1]
        priority = None
        if self.priority is not None:
            largest = jnp.max(self.priority, axis=1)
            priority = jnp.where(largest > 0, largest, 1.0)
        at_start = jax.tree.map(lambda leaf: leaf[:, None], (carry, priority))
        carry, priority = write_ring((self.carry, self.priority), at_start, self.slot // count)
        steps = write_ring(self.steps, steps, self.slot)
        return Buffer(steps, carry, priority, *advance_ring(self.slot, self.filled, count, length))

    def valid_starts(self, starts: int, window: int) -> Bool[Array, " starts"]:
        """A mask of the starts with a full window after them, the same for all environments."""
        length = self.steps.reward.shape[1]
        train_freq = length // starts
        oldest = oldest_slot(self.slot, self.filled, length) // train_freq
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
        """A random batch of sequences, `count` from each block.

        The environments are split into contiguous blocks, one for each key. The sample of a block
        depends only on its key and its environments.
        """
        num_envs, length = self.steps.reward.shape
        blocks = keys.shape[0]
        size = num_envs // blocks
        valid = jnp.broadcast_to(self.valid_starts(starts, window)[None], (size, starts))
        priority = None if self.priority is None else self.priority.reshape(blocks, size, starts)
        place, probability = jax.vmap(
            lambda priority, key: sampling.draw(valid, priority, count, key=key)
        )(priority, keys)
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
    priority: Priorities, sample: Sample, new: Sequences, applied: Bool[Array, ""]
) -> Priorities:
    """The priorities after a gradient step on a sample: the valid sequences get their new ones.

    If the step was not `applied`, the priorities stay. A sequence whose error is not finite gets
    priority 0 in any case: it is not drawn again, since each of its steps would be skipped.
    """
    where = (sample.environment, sample.start)
    sound = jnp.isfinite(new)
    kept = jnp.where((sample.valid > 0) & (applied | ~sound), new, priority[where])
    kept = jnp.where((sample.valid > 0) & ~sound, 0.0, kept)
    # A sequence may be drawn twice. `max` does not depend on the order of the writes.
    return priority.at[where].set(0.0).at[where].max(kept)
