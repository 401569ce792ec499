"""The units in which a network learns values.

Returns of HackMatrix are heavy-tailed: a step costs 0.01, the n-th stage is worth 2^(n-1), and a
victory is worth 500 or more. In such units, one victory would change the shared layers more than
all squared errors before it. So the network learns normalised values, whose targets have mean 0
and standard deviation 1. Advantages stay in units of reward.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32


class ValueScale(eqx.Module):
    """A monotone map between units of reward and the units of a network's value output.

    It is part of the training state. Gradients and casts of the dtype do not change it.
    """

    @abstractmethod
    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """Converts units of reward to units of the network."""

    @abstractmethod
    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """Converts units of the network to units of reward; the inverse of `normalize`."""

    @abstractmethod
    def update(self, targets: Float32[Array, "*shape"]) -> "ValueScale":
        """The scale updated with these value targets, in units of reward.

        Targets that are not finite must not change the scale: training skips the gradient steps
        that contain them and continues.
        """


class IdentityScale(ValueScale):
    """Values in units of reward."""

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        return value

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        return value

    def update(self, targets: Float32[Array, "*shape"]) -> "IdentityScale":
        return self


IDENTITY_SCALE = IdentityScale()


class RunningScale(ValueScale):
    """Standardisation by a running mean and standard deviation of the targets.

    The statistics are exponentially weighted averages over updates, without a bias towards their
    initial values: the first update sets them to the statistics of its targets. An update whose
    targets are not all finite leaves them unchanged. They are the statistics of PopArt without its
    correction of the last layer, so they work with any network.

    With `compress`, targets are first mapped by `sign(x) (sqrt(|x| + 1) - 1)`. This function is
    nearly linear up to about 1 and close to a square root beyond: a victory of 500 becomes about
    21. It is biased if the return is random: the network learns the mean of the compressed
    return, and the inverse of that mean is below the mean return.

    Source: van Hasselt et al. 2016, "Learning values across many orders of magnitude";
    Pohlen et al. 2018, "Observe and look further" (the compression, without its linear part,
    which the inverse in float32 does not need).
    """

    mean: Float32[Array, ""]  #: Mean of the (compressed) targets.
    variance: Float32[Array, ""]  #: Variance of the (compressed) targets.
    #: Sum of the weights of all updates so far: 0 before the first update, 1 in the limit.
    weight: Float32[Array, ""]
    decay: float = eqx.field(static=True)  #: Weight of the old average in an update.
    compress: bool = eqx.field(static=True)  #: Whether targets are compressed.
    min_std: float = eqx.field(static=True)  #: Smallest standard deviation to divide by.

    def __init__(
        self, *, decay: float = 0.99, compress: bool = False, min_std: float = 0.01
    ) -> None:
        """Starts as the identity, or as the compression alone.

        Raises:
            ValueError: an argument is out of range.
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
        """The standard deviation that `normalize` divides by, at least `min_std`."""
        return jnp.maximum(jnp.sqrt(self.variance), self.min_std)

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        return (self._compressed(value) - self.mean) / self.std

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        plain = value * self.std + self.mean
        if not self.compress:
            return plain
        return plain * (jnp.abs(plain) + 2.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "RunningScale":
        targets = self._compressed(targets)
        weight = self.decay * self.weight + (1.0 - self.decay)
        share = (1.0 - self.decay) / weight
        away = jnp.mean(targets) - self.mean
        # Variance of a mixture of two groups: the variances within them, and between their means.
        variance = (1.0 - share) * (self.variance + share * away**2) + share * jnp.var(targets)
        after = self.mean + share * away, variance, weight
        before = self.mean, self.variance, self.weight
        known = jnp.isfinite(after[0]) & jnp.isfinite(variance)
        return eqx.tree_at(
            lambda scale: (scale.mean, scale.variance, scale.weight),
            self,
            tuple(jnp.where(known, new, old) for new, old in zip(after, before, strict=True)),
        )

    def _compressed(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        if not self.compress:
            return value
        # Equals sign(x) (sqrt(|x| + 1) - 1), without its cancellation for small x.
        return value / (jnp.sqrt(jnp.abs(value) + 1.0) + 1.0)
