"""Networks whose observations are normalised by running statistics."""

from typing import Any, final

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
from hackmatrix_rl.agent.networks._distributions import Distribution, Masks, Parameters
from hackmatrix_rl.agent.precision import NonTrainable
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.system.errors import ArgumentError

CLIP, EPSILON = 10.0, 1e-8
"""Limit of normalised numbers, in standard deviations, and what is added to a variance."""


class RunningMoments(eqx.Module):
    """Mean and variance of each number of an array over all observations so far, in float32.

    Source: Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing sample
    variances".
    """

    mean: Float32[Array, "*shape"]
    variance: Float32[Array, "*shape"]
    count: Float32[Array, ""]  #: Number of observations.

    def normalize(self, seen: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The array of one observation in standard deviations from the mean, clipped."""
        away = (seen.astype(jnp.float32) - self.mean) / jnp.sqrt(self.variance + EPSILON)
        return jnp.clip(away, -CLIP, CLIP).astype(seen.dtype)

    def update(self, seen: Float[Array, "num_steps num_envs *shape"]) -> "RunningMoments":
        """The moments with a rollout added. Numbers that would become NaN or infinite stay."""
        size = seen.shape[0] * seen.shape[1]
        share = size / (count := self.count + size)
        # Relative to the old mean: float32 rounds less.
        away = seen.astype(jnp.float32) - self.mean[None, None]
        shift, variance = jnp.mean(away, axis=(0, 1)), jnp.var(away, axis=(0, 1))
        mean = self.mean + share * shift
        variance = (1.0 - share) * (self.variance + share * shift**2) + share * variance
        known = jnp.isfinite(mean) & jnp.isfinite(variance)
        kept = jnp.where(known, mean, self.mean), jnp.where(known, variance, self.variance)
        return RunningMoments(*kept, count)


class Normalized(ActorCritic):
    """A network behind the normalisation of its observations."""

    unnormalized: Any  #: The network.
    #: `RunningMoments` for each floating-point array of an observation, `None` for other arrays.
    moments: NonTrainable

    def initial_carry(self) -> PyTree[Array]:
        return self.unnormalized.initial_carry()

    def normalize(self, observation: PyTree[Array]) -> PyTree[Array]:
        """One observation as the network takes it."""
        return jax.tree.map(
            lambda leaf, moments: leaf if moments is None else moments.normalize(leaf),
            observation,
            self.moments.value,
        )

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        return self.unnormalized.distribution(parameters, mask)


@final
class NormalizedCall(Normalized):
    """`Normalized` for a network that only has a call."""

    @final  # the network casts what is normalised
    def __call__(self, observation: PyTree[Array], carry: PyTree[Array]) -> Any:
        return self.unnormalized(self.normalize(observation), carry)


@final
class NormalizedTrunk(Normalized, RecurrentActorCritic):
    """`Normalized` for a network with a trunk; normalising needs no memory, so `drive` does it."""

    @property  # type: ignore[misc]  # an `AbstractVar` may be a property
    def heads(self) -> Any:  # type: ignore[override]
        return self.unnormalized.heads

    def drive(self, observation: PyTree[Array]) -> PyTree[Array]:
        network, seen = self.unnormalized, self.normalize(observation)
        return network.drive(seen) if isinstance(network, RecurrentActorCritic) else seen

    def advance(self, driven: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        network = self.unnormalized
        advance = network.advance if isinstance(network, RecurrentActorCritic) else network.trunk
        return advance(driven, carry)


def add_normalization(policy: ActorCritic, spec: EnvSpec) -> ActorCritic:
    """The network with `RunningMoments`, which `PPO` updates; unchanged if it has them.

    Raises:
        ArgumentError: no array of an observation is floating-point, or the spec has a `precompute`.
    """
    if isinstance(policy, WithAuxiliaryHead):
        headless: Any = add_normalization(policy.headless, spec)
        return WithAuxiliaryHead(headless, policy.auxiliary)
    if isinstance(policy, Normalized):
        return policy

    def first(leaf: jax.ShapeDtypeStruct) -> RunningMoments | None:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return None
        mean, count = jnp.zeros(leaf.shape, jnp.float32), jnp.zeros((), jnp.float32)
        return RunningMoments(mean, jnp.ones(leaf.shape, jnp.float32), count)

    moments = jax.tree.map(first, spec.observation)
    if not jax.tree.leaves(moments) or spec.precompute is not None:
        raise ArgumentError(
            "{normalize_observations} is for floating-point observations, and this environment has "
            "codes for its encoder. Leave it out",
            normalize_observations=True,
        )
    trunk = isinstance(policy, TrunkActorCritic)
    kind: type[Normalized] = NormalizedTrunk if trunk else NormalizedCall
    return kind(policy, NonTrainable(moments))


def update_moments(policy: ActorCritic, observations: PyTree[Array]) -> ActorCritic:
    """The network with a rollout added to its moments; leaves `[num_steps, num_envs, ...]`."""

    def moments_of(policy: Any) -> PyTree:
        return getattr(policy, "headless", policy).moments.value

    def update(leaf: Array, moments: RunningMoments | None) -> RunningMoments | None:
        return None if moments is None else moments.update(leaf)

    updated = jax.tree.map(update, observations, moments_of(policy))
    return eqx.tree_at(moments_of, policy, updated)


def unwrapped(policy: PyTree) -> Any:
    """The network without auxiliary head and normalisation."""
    network = getattr(policy, "headless", policy)
    return getattr(network, "unnormalized", network)
