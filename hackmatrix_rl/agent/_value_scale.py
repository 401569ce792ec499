"""The units in which a network learns values.

Returns of HackMatrix are heavy-tailed: a step costs 0.01, the n-th stage is worth 2^(n-1), a
victory 500 and more. A squared error in such units is all tail: one victory would move the
shared layers more than everything before it. So the network learns values in other units, in
which its targets have mean 0 and standard deviation 1. Advantages stay in units of reward.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32


class ValueScale(eqx.Module):
    """A monotone map between units of reward and the units of a network's value output.

    It is state of the learner. No gradient and no cast of dtype changes it.
    """

    @abstractmethod
    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """From units of reward to those of the network."""

    @abstractmethod
    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """From units of the network to those of reward; the inverse of `normalize`."""

    @abstractmethod
    def update(self, targets: Float32[Array, "*shape"]) -> "ValueScale":
        """The scale after having seen these value targets (in units of reward)."""


class IdentityScale(ValueScale):
    """Values in units of reward."""

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The value itself."""
        return value

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The value itself."""
        return value

    def update(self, targets: Float32[Array, "*shape"]) -> "IdentityScale":
        """Itself: there is nothing to learn."""
        return self


IDENTITY_SCALE = IdentityScale()


class RunningScale(ValueScale):
    """Standardisation by a running mean and standard deviation of the targets.

    The statistics are an exponentially weighted average over updates. They have no bias towards
    their starting point: the first update's targets set them. Afterwards they drift slowly, and
    the network follows. These are the statistics of PopArt without its correction of the last
    layer, so they work with any network.

    With `compress`, targets go through `sign(x) (sqrt(|x| + 1) - 1)` first. That is nearly
    linear up to about 1, and a square root beyond: a victory is some twenty units instead of
    five hundred. It is biased where the return is random: the network learns the inverse of the
    mean of the compressed return, which lies below the mean return.

    Source: van Hasselt et al. 2016, "Learning values across many orders of magnitude";
    Pohlen et al. 2018, "Observe and look further" (the compression, without its linear part,
    which the inverse in float32 does not need).

    Attributes:
        mean: of the (compressed) targets.
        variance: of the (compressed) targets.
        weight: how much of the average is filled, from 0 to 1.
        decay: what an update leaves of the average before it.
        compress: whether targets are compressed.
        min_std: no standard deviation below this is used.
    """

    mean: Float32[Array, ""]
    variance: Float32[Array, ""]
    weight: Float32[Array, ""]
    decay: float = eqx.field(static=True)
    compress: bool = eqx.field(static=True)
    min_std: float = eqx.field(static=True)

    def __init__(
        self, *, decay: float = 0.99, compress: bool = False, min_std: float = 0.01
    ) -> None:
        """Starts as the identity (or the bare compression).

        Args:
            decay: what an update leaves of the average before it, in [0, 1).
            compress: whether to compress targets.
            min_std: smallest standard deviation that is used.

        Raises:
            ValueError: an argument out of its range.
        """
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), not {decay}")
        if min_std <= 0:
            raise ValueError(f"min_std must be positive, not {min_std}")
        self.mean = jnp.zeros((), jnp.float32)
        self.variance = jnp.ones((), jnp.float32)
        self.weight = jnp.zeros((), jnp.float32)
        self.decay = decay
        self.compress = compress
        self.min_std = min_std

    @property
    def std(self) -> Float32[Array, ""]:
        """The standard deviation that is divided by."""
        return jnp.maximum(jnp.sqrt(self.variance), self.min_std)

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """Compressed if so chosen, then standardised."""
        return (self._compressed(value) - self.mean) / self.std

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The inverse of `normalize`."""
        plain = value * self.std + self.mean
        if not self.compress:
            return plain
        return plain * (jnp.abs(plain) + 2.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "RunningScale":
        """The statistics with these targets taken in."""
        targets = self._compressed(targets)
        weight = self.decay * self.weight + (1.0 - self.decay)
        share = (1.0 - self.decay) / weight
        away = jnp.mean(targets) - self.mean
        # The variance of a mixture of two groups: within them, and between their means.
        variance = (1.0 - share) * (self.variance + share * away**2) + share * jnp.var(targets)
        updated: RunningScale = eqx.tree_at(
            lambda scale: (scale.mean, scale.variance, scale.weight),
            self,
            (self.mean + share * away, variance, weight),
        )
        return updated

    def _compressed(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        if not self.compress:
            return value
        # sign(x) (sqrt(|x| + 1) - 1), without the cancellation for small x.
        return value / (jnp.sqrt(jnp.abs(value) + 1.0) + 1.0)
