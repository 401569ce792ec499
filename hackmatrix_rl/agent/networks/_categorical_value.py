"""A value head that predicts a distribution over bins, and learns it by cross-entropy."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Key

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic, TrunkActorCritic
from hackmatrix_rl.agent.networks._layers import POLICY_GAIN, VALUE_GAIN, Dense, ValueHead

RANGE, BINS = 10.0, 101
"""The bins reach from -`RANGE` to `RANGE`, in standard deviations of the value's targets."""
HL_GAUSS = 0.75
"""Width of the Gauss curve around a target, in bins."""
VALUE_HEADS = ("scalar", "hl-gauss", "two-hot")
"""Kinds of value heads, by name."""


@final
class CategoricalValue(ValueHead):
    """The value as the mean of a distribution over equal bins.

    The gradient of a cross-entropy does not grow with the error, so that rare large returns (a
    victory) move the layers below no more than others. A target beyond the bins counts as the
    outermost value.

    Source: Farebrother et al. 2024, "Stop regressing: training value functions via classification
    for scalable deep RL" (HL-Gauss, and 0.75); Bellemare et al. 2017, "A distributional
    perspective on reinforcement learning" (two-hot).

    Attributes:
        layer: from the hidden layer to the logits of the bins.
        smoothing: width of the Gauss curve that a target becomes, in bins; `None`: a target
            becomes its two nearest bins (two-hot).
    """

    layer: Dense
    smoothing: float | None = eqx.field(static=True)

    def __init__(
        self, inputs: int, *, smoothing: float | None = HL_GAUSS, key: Key[Array, ""]
    ) -> None:
        """Draws the weights; the first values are close to 0.

        Raises:
            ValueError: the smoothing is not positive.
        """
        if smoothing is not None and not smoothing > 0:
            raise ValueError(f"smoothing must be positive or None, not {smoothing}")
        self.layer = Dense(inputs, BINS, gain=POLICY_GAIN, key=key)
        self.smoothing = smoothing

    def logits(self, hidden: Float[Array, " inputs"]) -> Float32[Array, " bins"]:
        """The logits of the bins."""
        return self.layer.full(hidden)

    def __call__(self, hidden: Float[Array, " inputs"]) -> Float32[Array, ""]:
        return jnp.sum(jax.nn.softmax(self.logits(hidden)) * _CENTRES)

    def loss(
        self, hidden: Float[Array, " inputs"], target: Float32[Array, ""]
    ) -> Float32[Array, ""]:
        """Cross-entropy of the predicted distribution to that of the target, in nats."""
        return -jnp.sum(self.distribution(target) * jax.nn.log_softmax(self.logits(hidden)))

    def distribution(self, target: Float32[Array, ""]) -> Float32[Array, " bins"]:
        """The target distribution for a target value."""
        near = jnp.clip(target, -RANGE, RANGE)
        if self.smoothing is None:
            return jnp.maximum(1.0 - jnp.abs(near - _CENTRES) / _WIDTH, 0.0)
        below = jax.scipy.special.ndtr((_EDGES - near) / (self.smoothing * _WIDTH))
        share = below[1:] - below[:-1]
        return share / jnp.sum(share)


_CENTRES = np.linspace(-RANGE, RANGE, BINS, dtype=np.float32)
_WIDTH = np.float32(2 * RANGE / (BINS - 1))
_EDGES = np.append(_CENTRES - _WIDTH / 2, np.float32(RANGE) + _WIDTH / 2)


def with_value_head(policy: ActorCritic, head: str, *, key: Key[Array, ""]) -> ActorCritic:
    """The network with another value head (one of `VALUE_HEADS`); no other number changes.

    Raises:
        ValueError: the network's heads are not open, or there is no such head.
    """
    if head not in VALUE_HEADS:
        raise ValueError(f"no value head {head!r}; there is {', '.join(VALUE_HEADS)}")
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is no TrunkActorCritic, whose heads can be replaced"
        )
    now = policy.heads.value
    layer = now.layer if isinstance(now, CategoricalValue) else now
    if not isinstance(layer, Dense):
        raise ValueError(f"{type(policy).__name__} has a value head of its own")
    inputs = layer.weight.shape[0]
    value: Dense | ValueHead
    if head == "scalar":
        value = Dense(inputs, 1, gain=VALUE_GAIN, key=key)
    else:
        smoothing = HL_GAUSS if head == "hl-gauss" else None
        value = CategoricalValue(inputs, smoothing=smoothing, key=key)
    return eqx.tree_at(lambda network: network.heads.value, policy, value)
