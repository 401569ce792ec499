"""Networks whose observations are normalised by running statistics."""

import math
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
    TrunkOutput,
)
from hackmatrix_rl.agent.networks._added_heads import WithAuxiliaryHead
from hackmatrix_rl.agent.networks._layers import Heads
from hackmatrix_rl.agent.precision import NonTrainable
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.system.errors import ArgumentError

CLIP = 10.0
"""Normalised numbers are clipped to plus or minus this, in standard deviations."""
EPSILON = 1e-8
"""Added to a variance, for numbers that do not vary."""

P = TypeVar("P", bound=ActorCritic)


class RunningMoments(eqx.Module):
    """Mean and variance of each number of an array, over all observations so far.

    They are float32 whatever the precision. Before the first update, `normalize` only clips.

    Source: Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances".
    """

    mean: Float32[Array, "*shape"]
    variance: Float32[Array, "*shape"]
    count: Float32[Array, ""]  #: Number of observations.

    def __init__(self, shape: tuple[int, ...]) -> None:
        """Starts without observations, as mean 0 and variance 1."""
        self.mean = jnp.zeros(shape, jnp.float32)
        self.variance = jnp.ones(shape, jnp.float32)
        self.count = jnp.zeros((), jnp.float32)

    def normalize(self, seen: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The array of one observation in standard deviations from the mean, clipped."""
        away = (seen.astype(jnp.float32) - self.mean) / jnp.sqrt(self.variance + EPSILON)
        return jnp.clip(away, -CLIP, CLIP).astype(seen.dtype)

    def update(self, seen: Float[Array, "num_steps num_envs *shape"]) -> "RunningMoments":
        """The moments with a rollout added.

        Numbers whose new moments are not finite keep the old ones.
        """
        size = math.prod(seen.shape[:2])
        count = self.count + size
        share = size / count
        # Relative to the old mean: float32 rounds less.
        away = seen.astype(jnp.float32) - self.mean[None, None]
        shift, variance = jnp.mean(away, axis=(0, 1)), jnp.var(away, axis=(0, 1))
        mean = self.mean + share * shift
        variance = (1.0 - share) * (self.variance + share * shift**2) + share * variance
        known = jnp.isfinite(mean) & jnp.isfinite(variance)
        return eqx.tree_at(
            lambda moments: (moments.mean, moments.variance, moments.count),
            self,
            (jnp.where(known, mean, self.mean), jnp.where(known, variance, self.variance), count),
        )


class Normalized(ActorCritic):
    """A network behind the normalisation of its observations.

    The names of parameters omit the field `unnormalized` (see `path_name`).
    """

    unnormalized: eqx.AbstractVar[ActorCritic]  #: The network.
    #: `RunningMoments` for each floating-point array of an observation, `None` for other arrays.
    moments: eqx.AbstractVar[NonTrainable]

    @final
    def initial_carry(self) -> PyTree[Array]:
        return self.unnormalized.initial_carry()

    @final
    def normalize(self, observation: PyTree[Array]) -> PyTree[Array]:
        """One observation as the network takes it."""
        return jax.tree.map(
            lambda leaf, moments: leaf if moments is None else moments.normalize(leaf),
            observation,
            self.moments.value,
        )


@final
class NormalizedActorCritic(Normalized):
    """`Normalized` for a network that only has a call."""

    unnormalized: ActorCritic
    moments: NonTrainable

    @final  # not cast before it is normalised
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        return self.unnormalized(self.normalize(observation), carry)


@final
class NormalizedTrunkActorCritic(Normalized, TrunkActorCritic):
    """`Normalized` for a network with a trunk."""

    unnormalized: TrunkActorCritic
    moments: NonTrainable

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def heads(self) -> Heads:  # type: ignore[override]
        return self.unnormalized.heads

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.unnormalized.trunk(self.normalize(observation), carry)


@final
class NormalizedRecurrentActorCritic(Normalized, RecurrentActorCritic):
    """`Normalized` for a recurrent network."""

    unnormalized: RecurrentActorCritic
    moments: NonTrainable

    @property  # type: ignore[misc]
    def heads(self) -> Heads:  # type: ignore[override]
        return self.unnormalized.heads

    def drive(self, observation: PyTree[Array]) -> PyTree[Array]:
        return self.unnormalized.drive(self.normalize(observation))

    def advance(self, driven: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.unnormalized.advance(driven, carry)


def add_normalization(policy: ActorCritic, spec: EnvSpec) -> ActorCritic:
    """The network behind `RunningMoments`, which `PPO` updates; unchanged if it has them.

    Raises:
        ArgumentError: no array of an observation is floating-point, or the spec has a `precompute`.
    """
    if isinstance(policy, WithAuxiliaryHead):
        headless: Any = add_normalization(policy.headless, spec)
        return WithAuxiliaryHead(headless, policy.auxiliary)
    if isinstance(policy, Normalized):
        return policy
    floats = jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating), spec.observation)
    if not any(jax.tree.leaves(floats)) or spec.precompute is not None:
        kinds = sorted({str(leaf.dtype) for leaf in jax.tree.leaves(spec.observation)})
        raise ArgumentError(
            "{normalize_observations} normalises floating-point observations; this environment has "
            f"{', '.join(kinds)} for its encoder. Leave it out",
            normalize_observations=True,
        )
    moments = jax.tree.map(
        lambda leaf, real: RunningMoments(leaf.shape) if real else None, spec.observation, floats
    )
    kind: Any = NormalizedActorCritic
    if isinstance(policy, TrunkActorCritic):
        kind = NormalizedTrunkActorCritic
    if isinstance(policy, RecurrentActorCritic):
        kind = NormalizedRecurrentActorCritic
    made: ActorCritic = kind(policy, NonTrainable(moments))
    return made


def update_moments(policy: P, observations: PyTree[Array]) -> P:
    """The network with a rollout added to its `RunningMoments`.

    Each leaf of `observations` is `[num_steps, num_envs, ...]`.
    """

    def is_normalized(node: Any) -> bool:
        return isinstance(node, Normalized)

    def updated(node: Any) -> Any:
        if not is_normalized(node):
            return node
        moments = jax.tree.map(
            lambda leaf, moments: None if moments is None else moments.update(leaf),
            observations,
            node.moments.value,
        )
        return eqx.tree_at(lambda network: network.moments.value, node, moments)

    return jax.tree.map(updated, policy, is_leaf=is_normalized)


def unwrapped(policy: PyTree) -> Any:
    """The network without auxiliary head and normalisation."""
    if isinstance(policy, WithAuxiliaryHead):
        return unwrapped(policy.headless)
    return policy.unnormalized if isinstance(policy, Normalized) else policy
