"""Which sequences of a buffer are drawn, and how much each counts."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.errors import number

SMALLEST_PRIORITY = 1e-6
"""Added to each priority: a sequence without an error is drawn again some day."""

_TINY = float(np.finfo(np.float32).tiny)


class Sampling(eqx.Module):
    """Draws sequences from a block of environments."""

    @property
    def uses_priorities(self) -> bool:
        """Whether the buffer keeps a priority for each sequence."""
        return False

    @abstractmethod
    def draw(
        self,
        there: Bool[Array, "environments starts"],
        priority: Float32[Array, "environments starts"] | None,
        count: int,
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, " count"], Float32[Array, " count"]]:
        """A random sample of sequences.

        Args:
            there: which sequences there are. Without any, the results mean nothing.
            priority: of each; `None` unless `uses_priorities`.
            count: number of draws, each from all sequences.
            key: decides.

        Returns:
            Numbers of the sequences, environment by environment, and the probability of each.
        """

    def weight(
        self, probability: Float32[Array, " sequences"], number: Float32[Array, ""]
    ) -> Float32[Array, " sequences"]:
        """The importance weight of each sampled sequence, up to a common factor; by default equal.

        `probability` is that of each draw, `number` that of the sequences that there are.
        """
        return jnp.ones_like(probability)

    def priority(
        self, td_error: Float32[Array, "time sequences"]
    ) -> Float32[Array, " sequences"] | None:
        """The priorities of sequences with these errors; `None` unless `uses_priorities`."""
        return None


@final
class Uniform(Sampling):
    """Samples all sequences with equal probability."""

    def draw(
        self,
        there: Bool[Array, "environments starts"],
        priority: Float32[Array, "environments starts"] | None,
        count: int,
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, " count"], Float32[Array, " count"]]:
        """Sequences at random, all with the same probability."""
        flat = there.ravel()
        number = jnp.maximum(jnp.sum(flat, dtype=jnp.int32), 1)
        which = jax.random.randint(key, (count,), 0, number)
        # The place of the n-th sequence that is there.
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
        exponent: 0 draws as `Uniform` does, 1 in proportion to the priorities.
        correction: 0 counts every draw alike, 1 as if it were drawn by `Uniform`.
        largest: weight of a sequence's largest error in its priority; the rest is its mean error.

    Raises:
        TypeError: one of them is no number.
        ValueError: a number is not from 0 to 1.
    """

    exponent: float = eqx.field(static=True, default=0.9)
    correction: float = eqx.field(static=True, default=0.6)
    largest: float = eqx.field(static=True, default=0.9)

    def __check_init__(self) -> None:
        for name in ("exponent", "correction", "largest"):
            if not 0 <= number(name, getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, not {getattr(self, name)}")

    @property
    def uses_priorities(self) -> bool:
        """True: it samples by priority."""
        return True

    def draw(
        self,
        there: Bool[Array, "environments starts"],
        priority: Float32[Array, "environments starts"] | None,
        count: int,
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, " count"], Float32[Array, " count"]]:
        """Sequences at random, in proportion to a power of their priorities."""
        assert priority is not None
        mass = jnp.where(there, priority**self.exponent, 0.0).ravel()
        sums = jnp.cumsum(mass)
        lots = jax.random.uniform(key, (count,)) * sums[-1]
        found = jnp.searchsorted(sums, lots, side="right").astype(jnp.int32)
        place = jnp.minimum(found, mass.size - 1)
        return place, mass[place] / jnp.maximum(sums[-1], _TINY)

    def weight(
        self, probability: Float32[Array, " sequences"], number: Float32[Array, ""]
    ) -> Float32[Array, " sequences"]:
        """Importance weights: a negative power of the probability, 1 at that of `Uniform`."""
        relative = jnp.maximum(probability * number, _TINY)
        return relative**-self.correction

    def priority(
        self, td_error: Float32[Array, "time sequences"]
    ) -> Float32[Array, " sequences"] | None:
        """The largest error of each sequence and its mean error, weighted; a little above 0."""
        errors = jnp.abs(td_error)
        mean, largest = jnp.mean(errors, axis=0), jnp.max(errors, axis=0)
        return self.largest * largest + (1 - self.largest) * mean + SMALLEST_PRIORITY
