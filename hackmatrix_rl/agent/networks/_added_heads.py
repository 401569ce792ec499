"""Heads that are added to a network: categorical values, and auxiliary predictions."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Key, PyTree, Shaped

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic, TrunkActorCritic, TrunkOutput
from hackmatrix_rl.agent.networks._distributions import Distribution, Masks, Parameters
from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    POLICY_GAIN,
    VALUE_GAIN,
    Dense,
    DenseHeads,
    Heads,
    ValueHead,
)
from hackmatrix_rl.agent.networks._names import VALUE_HEADS
from hackmatrix_rl.env import ActionSpace, Box, EnvSpec

RANGE, BINS = 10.0, 101
"""The bins reach from -`RANGE` to `RANGE`, in standard deviations of the value's targets."""
HL_GAUSS = 0.75
"""Standard deviation of the Gaussian around a target, in bins."""


@final
class CategoricalValue(ValueHead):
    """The value as the mean of a distribution over equal bins.

    The gradient of a cross-entropy does not grow with the error, so rare large returns (a victory)
    do not dominate an update. Targets are clipped to the range of the bins.

    Source: Farebrother et al. 2024, "Stop regressing: training value functions via classification
    for scalable deep RL" (HL-Gauss, and 0.75); Bellemare et al. 2017, "A distributional
    perspective on reinforcement learning" (two-hot).
    """

    layer: Dense  #: From the hidden layer to the logits of the bins.
    #: Standard deviation of the Gaussian around a target, in bins; `None`: a target becomes its
    #: two nearest bins (two-hot).
    smoothing: float | None = eqx.field(static=True)

    def __init__(
        self, inputs: int, *, smoothing: float | None = HL_GAUSS, key: Key[Array, ""]
    ) -> None:
        """Draws the weights; the first values are close to 0."""
        if smoothing is not None and not smoothing > 0:
            raise ValueError(f"smoothing must be positive or None, not {smoothing}")
        self.layer = Dense(inputs, BINS, gain=POLICY_GAIN, key=key)
        self.smoothing = smoothing

    def logits(self, hidden: Float[Array, " inputs"]) -> Float32[Array, " bins"]:
        return self.layer.full(hidden)

    def __call__(self, hidden: Float[Array, " inputs"]) -> Float32[Array, ""]:
        return jnp.sum(jax.nn.softmax(self.logits(hidden)) * _CENTRES)

    def loss(
        self, hidden: Float[Array, " inputs"], target: Float32[Array, ""]
    ) -> Float32[Array, ""]:
        """Cross-entropy of the predicted to the target distribution, in nats."""
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
    """The network with a new value head (one of `VALUE_HEADS`); no other parameter changes."""
    if head not in VALUE_HEADS:
        raise ValueError(f"unknown value head {head!r}; choose one of {', '.join(VALUE_HEADS)}")
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is not a TrunkActorCritic: its value head cannot be replaced"
        )
    old = policy.heads.value
    layer = old.layer if isinstance(old, CategoricalValue) else old
    if not isinstance(layer, Dense):
        raise ValueError(
            f"{type(policy).__name__} has a custom value head, which cannot be replaced"
        )
    inputs = layer.weight.shape[0]
    value: Dense | ValueHead
    if head == "scalar":
        value = Dense(inputs, 1, gain=VALUE_GAIN, key=key)
    else:
        smoothing = HL_GAUSS if head == "hl-gauss" else None
        value = CategoricalValue(inputs, smoothing=smoothing, key=key)
    return eqx.tree_at(lambda network: network.heads.value, policy, value)


def with_gaussian(
    policy: ActorCritic, *, own_std: bool = False, squash: bool = False, key: Key[Array, ""]
) -> ActorCritic:
    """The network with a new policy head for `Box` actions; no other parameter changes.

    Args:
        policy: a network of this package whose head is one dense layer.
        own_std: whether each observation has its own standard deviations; by default all share
            them.
        squash: whether the distribution is a `TanhGaussian`, not a `DiagonalGaussian`.
        key: source of randomness for the head.

    Raises:
        ValueError: the network has another head, or its actions are no `Box`.
    """
    heads = policy.heads if isinstance(policy, TrunkActorCritic) else None
    if not isinstance(heads, DenseHeads) or not isinstance(heads.actions, Box):
        raise ValueError(f"{type(policy).__name__} has no dense policy head for actions of a Box")
    inputs = heads.policy.weight.shape[0]
    new = DenseHeads(inputs, heads.actions, own_std=own_std, squash=squash, key=key)
    new = eqx.tree_at(lambda heads: heads.value, new, heads.value)
    return eqx.tree_at(lambda network: network.heads, policy, new)


class AuxiliaryHead(eqx.Module):
    """Predicts the immediate result of an action from a hidden layer and the action."""

    hidden: Dense  #: A layer over both.
    terms: Dense  #: Predicts `symlog` of the terms of the reward.
    terminated: Dense  #: Logit of a termination.
    #: Logit of the victory, from the hidden layer alone; `None` if it is not predicted.
    won: Dense | None
    actions: ActionSpace = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        actions: ActionSpace,
        num_terms: int,
        *,
        width: int = 64,
        wins: bool = False,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights: a hidden layer of `width` units; `wins` predicts the victory."""
        hidden_key, terms_key, end_key = jax.random.split(key, 3)
        self.hidden = Dense(inputs + actions.num_features, width, gain=HIDDEN_GAIN, key=hidden_key)
        self.terms = Dense(width, num_terms, gain=VALUE_GAIN, key=terms_key)
        self.terminated = Dense(width, 1, gain=VALUE_GAIN, key=end_key)
        self.won = None
        if wins:
            # A separate key: the other weights are the same with and without this layer.
            won_key = jax.random.fold_in(key, 0)
            self.won = Dense(inputs, 1, gain=VALUE_GAIN, key=won_key)
        self.actions = actions

    def __call__(
        self, hidden: Float[Array, " inputs"], action: Shaped[Array, "*action"]
    ) -> tuple[Float32[Array, " terms"], Float32[Array, ""]]:
        """`symlog` of the terms of the reward, and the logit of a termination."""
        chosen = self.actions.features(action, hidden.dtype)
        known = jax.nn.relu(self.hidden(jnp.concatenate([hidden, chosen])))
        return self.terms.full(known), self.terminated.full(known)[0]

    def win_logit(self, hidden: Float[Array, " inputs"]) -> Float32[Array, ""] | None:
        """The logit of the probability that this episode is won; `None` if not predicted."""
        return None if self.won is None else self.won.full(hidden)[0]


VICTORY = "victory"
"""The term of the reward that is positive exactly where an episode is won."""


@final
class WithAuxiliaryHead(TrunkActorCritic):
    """A network with an auxiliary head, which acting does not use (see `AuxiliaryLoss`).

    The names of parameters omit the field `headless` (see `path_name`), so the head does not change
    them.
    """

    auxiliary: AuxiliaryHead
    headless: TrunkActorCritic

    def __init__(self, headless: TrunkActorCritic, auxiliary: AuxiliaryHead) -> None:
        self.auxiliary = auxiliary
        self.headless = headless

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def heads(self) -> Heads:  # type: ignore[override]
        return self.headless.heads

    def initial_carry(self) -> PyTree[Array]:
        return self.headless.initial_carry()

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        return self.headless.distribution(parameters, mask)

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.headless.trunk(observation, carry)


def add_auxiliary_head(
    policy: ActorCritic, spec: EnvSpec, *, wins: bool = False, key: Key[Array, ""]
) -> WithAuxiliaryHead:
    """Adds a head that predicts the immediate result of an action (see `AuxiliaryLoss`).

    No parameter of the policy changes. With `wins`, the head also predicts the victory, for which
    the reward needs a term `victory`.
    """
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is not a TrunkActorCritic: it exposes no hidden layer"
        )
    if not spec.terms:
        raise ValueError("the environment's spec names no terms of the reward")
    if wins and VICTORY not in spec.terms:
        raise ValueError(
            f"the environment's spec names no reward term {VICTORY!r}, which wins=True predicts"
        )
    seen = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), spec.observation)
    hidden, _ = eqx.filter_eval_shape(policy.trunk, seen, policy.initial_carry())
    head = AuxiliaryHead(hidden.shape[0], spec.actions, len(spec.terms), wins=wins, key=key)
    return WithAuxiliaryHead(policy, head)
