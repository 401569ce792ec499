"""Distributions of actions."""

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, Shaped

from hackmatrix_rl.env import ActionSpace, Box, MultiDiscrete
from hackmatrix_rl.system.errors import check_array

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the logarithm of a standard deviation (Haarnoja et al. 2018, "Soft actor-critic")."""

Action = Shaped[Array, "*batch_and_action"]
Parameters = Float32[Array, "*batch num_parameters"]
Masks = Bool[Array, "*batch mask_size"]
Numbers = Float32[Array, "*batch k"]


class Distribution(eqx.Module):
    """A distribution of actions, in float32; leading axes are batch axes.

    A network outputs its parameters (see `ActorCritic.distribution`). Samples, the mode and the
    arguments of `log_prob` are raw actions, which a rollout stores. `to_environment` maps a raw
    action to the action that the environment plays.
    """

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """The parameters, normalised: as outputs of a network, they give the same distribution."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> Action:
        """Samples a raw action; a batch of distributions uses one key."""

    @abstractmethod
    def log_prob(self, action: Any) -> Float32[Array, "*batch"]:
        """Log-probability of a raw action, or the log-density of the action that is played."""

    @abstractmethod
    def entropy(self) -> Float32[Array, "*batch"]:
        """Entropy in nats."""

    @abstractmethod
    def mode(self) -> Action:
        """The most probable raw action."""

    @abstractmethod
    def divergence_from(self, other: Any) -> Float32[Array, "*batch"]:
        """Kullback-Leibler divergence KL(self || other), in nats; `other` is of the same class."""

    def to_environment(self, action: Action) -> Action:
        """The action that the environment plays; by default the raw action."""
        return action

    def from_environment(self, action: Action) -> Action:
        """A raw action of an action of the environment; by default the same."""
        return action


class MaskedCategorical(Distribution):
    """A categorical distribution over the legal actions.

    An illegal action has probability exactly 0 and log-probability minus infinity, whatever its
    logit, and is never sampled. If no action is legal, the distribution is uniform over all actions
    and its gradient is zero, so nothing becomes NaN. A legal action may also have the logit minus
    infinity, if another legal one has a finite logit: its probability is 0, and gradients stay
    finite.

    Everything is float32. Leading axes of `logits` and `mask` are batch axes.

    Source: Huang and Ontañón 2022, "A closer look at invalid action masking in policy
    gradient algorithms" (masked logits give a valid policy gradient).

    Attributes:
        log_probs: normalised log-probabilities; minus infinity for illegal actions.
        support: the legal actions, or all if none is legal.
    """

    log_probs: Float32[Array, "*batch num_actions"]
    support: Bool[Array, "*batch num_actions"]

    def __init__(
        self, logits: Float32[Array, "*batch num_actions"], mask: Bool[Array, "*batch num_actions"]
    ) -> None:
        """Normalises the logits over the legal actions.

        Raises:
            TypeError: the mask is not an array.
            ValueError: the mask is not boolean, or its shape is not the shape of the logits.
        """
        check_array("mask is", mask, "bool", logits.shape, hint="a True for each legal action")
        some = jnp.any(mask, axis=-1, keepdims=True)
        self.support = mask | ~some
        usable = jnp.where(some, logits, 0.0)
        self.log_probs = jax.nn.log_softmax(jnp.where(self.support, usable, -jnp.inf), axis=-1)

    @property
    def parameters(self) -> Float32[Array, "*batch num_actions"]:
        """`log_probs`."""
        return self.log_probs

    @property
    def probs(self) -> Float32[Array, "*batch num_actions"]:
        """Probabilities of all actions."""
        return jnp.exp(self.log_probs)

    def sample(self, key: Key[Array, ""]) -> Int32[Array, "*batch"]:
        """Samples an action; a batch of distributions uses one key."""
        # The same result as `jax.random.categorical`, whose `argmax` takes as long as drawing the
        # noise on a CPU. So this computes the maximum, then the first action that attains it.
        noise = jax.random.gumbel(key, self.log_probs.shape, self.log_probs.dtype)
        perturbed = jax.lax.optimization_barrier(self.log_probs + noise)  # computed once for both
        is_largest = perturbed == jnp.max(perturbed, axis=-1, keepdims=True)
        last = perturbed.shape[-1] - 1
        actions = jnp.arange(last + 1, dtype=jnp.int32)
        # If all are NaN, no action equals the maximum.
        return jnp.min(jnp.where(is_largest, actions, last), axis=-1)

    def log_prob(self, action: Int32[Array, "*batch"]) -> Float32[Array, "*batch"]:
        """Log-probability of an action; minus infinity for an illegal action."""
        # A masked sum rather than an index: its gradient is a select, not a scatter.
        actions = jnp.arange(self.log_probs.shape[-1], dtype=jnp.int32)
        chosen = action[..., None] == actions.reshape(*(1 for _ in action.shape), -1)
        return jnp.sum(jnp.where(chosen, self.log_probs, 0.0), axis=-1)

    def entropy(self) -> Float32[Array, "*batch"]:
        """Entropy in nats; an action of probability 0 contributes 0."""
        possible, finite = self._finite()
        return -jnp.sum(jnp.where(possible, jnp.exp(finite) * finite, 0.0), axis=-1)

    def divergence_from(self, other: "MaskedCategorical") -> Float32[Array, "*batch"]:
        """Kullback-Leibler divergence KL(self || other), in nats.

        It is infinite if an action has a positive probability here and probability 0 in `other`.
        """
        possible, finite = self._finite()
        probs = jnp.exp(finite)  # also 0 where it underflows
        # An action of probability 0 here contributes 0, whatever its probability in `other`.
        other_finite = jnp.where(possible & (probs != 0.0), other.log_probs, 0.0)
        return jnp.sum(jnp.where(possible, probs * (finite - other_finite), 0.0), axis=-1)

    def cross_entropy(
        self, targets: Float32[Array, "*batch num_actions"]
    ) -> Float32[Array, "*batch"]:
        """Cross-entropy to target probabilities, in nats: minus the sum of `targets * log_probs`.

        An action contributes 0 if its target is 0 or it is illegal. The result is infinite if a
        legal action of probability 0 has a positive target.
        """
        counts = self.support & (targets != 0.0)
        return -jnp.sum(targets * jnp.where(counts, self.log_probs, 0.0), axis=-1)

    def _finite(
        self,
    ) -> tuple[Bool[Array, "*batch num_actions"], Float32[Array, "*batch num_actions"]]:
        """Where log-probabilities are not -inf, and the log-probabilities with -inf replaced by 0.

        `0 * -inf` would be NaN, in the value and in the gradient. NaN is not replaced.
        """
        possible = self.log_probs != -jnp.inf
        return possible, jnp.where(possible, self.log_probs, 0.0)

    def mode(self) -> Int32[Array, "*batch"]:
        """The most probable action; the first one if several are equal."""
        return jnp.argmax(self.log_probs, axis=-1).astype(jnp.int32)


class ProductOfCategoricals(Distribution):
    """Independent masked categorical distributions of the parts of a `MultiDiscrete` action.

    Source: Tavakoli et al. 2018, "Action branching architectures for deep reinforcement learning".
    """

    parts: tuple[MaskedCategorical, ...]

    def __init__(self, logits: Parameters, mask: Masks, actions: MultiDiscrete) -> None:
        """Normalises the logits of each part over its legal actions.

        Raises:
            ValueError: the shape of the logits or of the mask does not fit `actions`.
        """
        _check_size("logits", logits, actions)
        check_array("mask is", mask, "bool", logits.shape, hint="a True for each legal action")
        parts = zip(actions.split(logits), actions.split(mask), strict=True)
        self.parts = tuple(MaskedCategorical(*part) for part in parts)

    @property
    def parameters(self) -> Parameters:
        """The log-probabilities of all parts."""
        return jnp.concatenate([part.log_probs for part in self.parts], axis=-1)

    def sample(self, key: Key[Array, ""]) -> Int32[Array, "*batch parts"]:
        keys = jax.random.split(key, len(self.parts))
        drawn = [part.sample(key) for part, key in zip(self.parts, keys, strict=True)]
        return jnp.stack(drawn, axis=-1)

    def log_prob(self, action: Int32[Array, "*batch parts"]) -> Float32[Array, "*batch"]:
        """Sum of the parts' log-probabilities; minus infinity if a part is illegal."""
        each = [part.log_prob(action[..., place]) for place, part in enumerate(self.parts)]
        return jnp.sum(jnp.stack(each), axis=0)

    def entropy(self) -> Float32[Array, "*batch"]:
        return jnp.sum(jnp.stack([part.entropy() for part in self.parts]), axis=0)

    def mode(self) -> Int32[Array, "*batch parts"]:
        return jnp.stack([part.mode() for part in self.parts], axis=-1)

    def divergence_from(self, other: "ProductOfCategoricals") -> Float32[Array, "*batch"]:
        pairs = zip(self.parts, other.parts, strict=True)
        return jnp.sum(jnp.stack([part.divergence_from(its) for part, its in pairs]), axis=0)


class _Gaussian(Distribution):
    """Independent normal distributions, in units in which the bounds of a `Box` are -1 and 1."""

    mean: Numbers
    log_std: Numbers
    actions: Box = eqx.field(static=True)

    def __init__(self, parameters: Parameters, actions: Box) -> None:
        _check_size("parameters", parameters, actions)
        self.mean, log_std = jnp.split(parameters.astype(jnp.float32), 2, axis=-1)
        # The gradient passes the bounds: without one, it would stay beyond them.
        self.log_std = log_std + jax.lax.stop_gradient(jnp.clip(log_std, *LOG_STD_RANGE) - log_std)
        self.actions = actions

    @property
    def parameters(self) -> Parameters:
        """The means, then the logarithms of the standard deviations."""
        return jnp.concatenate([self.mean, self.log_std], axis=-1)

    def divergence_from(self, other: "_Gaussian") -> Float32[Array, "*batch"]:
        """KL(self || other) in nats; the map to the bounds does not change it."""
        ratio = jnp.exp(2.0 * (self.log_std - other.log_std))
        apart = ((self.mean - other.mean) / jnp.exp(other.log_std)) ** 2
        each = other.log_std - self.log_std + 0.5 * (ratio + apart - 1.0)
        return jnp.sum(each, axis=-1)

    def sample(self, key: Key[Array, ""]) -> Numbers:
        noise = jax.random.normal(key, self.mean.shape, jnp.float32)
        return self.mean + jnp.exp(self.log_std) * noise

    def _log_density(self, x: Numbers) -> Numbers:
        z = (x - self.mean) / jnp.exp(self.log_std)
        return -0.5 * z**2 - self.log_std - 0.5 * math.log(2 * math.pi)

    def _entropies(self) -> Numbers:
        # No gradient at the upper bound: an entropy bonus would lead further out.
        log_std = jnp.minimum(self.log_std, LOG_STD_RANGE[1] - 1e-3)
        return log_std + 0.5 * math.log(2 * math.pi * math.e)

    def _bounds(self) -> tuple[Numbers, Numbers]:
        """Middle and half width of the bounds."""
        low, high = np.asarray(self.actions.low), np.asarray(self.actions.high)
        middle, half = ((each / 2).astype(np.float32) for each in (low + high, high - low))
        shape = self.mean.shape
        return jnp.broadcast_to(middle, shape), jnp.broadcast_to(half, shape)


class DiagonalGaussian(_Gaussian):
    """Independent normal distributions of the numbers of a `Box` action.

    Mean 0 is the middle of the bounds, and a standard deviation of 1 is half of their distance. The
    environment plays the raw action clipped to the bounds; the density is of the raw action.

    Source: Schulman et al. 2015, "Trust region policy optimization"; Huang et al. 2022, "The 37
    implementation details of proximal policy optimization" (the clipped action).
    """

    def __init__(self, parameters: Parameters, actions: Box) -> None:
        """Reads the means, then the logarithms of the standard deviations.

        The logarithms are clipped to `LOG_STD_RANGE`.

        Raises:
            ValueError: the number of parameters is not twice the number of bounds.
        """
        super().__init__(parameters, actions)

    def sample(self, key: Key[Array, ""]) -> Numbers:
        return self._scaled(super().sample(key))

    def log_prob(self, action: Numbers) -> Float32[Array, "*batch"]:
        middle, half = self._bounds()
        return jnp.sum(self._log_density((action - middle) / half) - jnp.log(half), axis=-1)

    def entropy(self) -> Float32[Array, "*batch"]:
        return jnp.sum(self._entropies() + jnp.log(self._bounds()[1]), axis=-1)

    def mode(self) -> Numbers:
        return self._scaled(self.mean)

    def to_environment(self, action: Numbers) -> Numbers:
        """The action clipped to the bounds."""
        return self.actions.clip(action)

    def _scaled(self, x: Numbers) -> Numbers:
        middle, half = self._bounds()
        return middle + half * x


class TanhGaussian(_Gaussian):
    """Independent normal distributions, squashed by `tanh` to the bounds of a `Box`.

    The raw action is the number before `tanh`: it is known exactly where `tanh` rounds to 1. The
    density is of the action that the environment plays.

    Source: Haarnoja et al. 2018, "Soft actor-critic", appendix C. The logarithm of the derivative
    of `tanh` is in the form `2 (log 2 - x - softplus(-2 x))`, which does not overflow.
    """

    def __init__(self, parameters: Parameters, actions: Box) -> None:
        """Reads the parameters as `DiagonalGaussian` does; it raises the same errors."""
        super().__init__(parameters, actions)

    def log_prob(self, action: Numbers) -> Float32[Array, "*batch"]:
        half = self._bounds()[1]
        squashing = jnp.log(half) + _log_derivative(action)
        return jnp.sum(self._log_density(action) - squashing, axis=-1)

    def entropy(self) -> Float32[Array, "*batch"]:
        """Entropy in nats: the normal one, and the mean logarithm of the derivative.

        It has no closed form. The mean is by Gauss-Hermite quadrature, so it needs no samples.
        """
        mean, std = self.mean[..., None], jnp.exp(self.log_std)[..., None]
        nodes = jnp.broadcast_to(_NODES, (*self.mean.shape, _NODES.size))
        change = jnp.average(_log_derivative(mean + std * nodes), axis=-1, weights=_WEIGHTS)
        return jnp.sum(self._entropies() + jnp.log(self._bounds()[1]) + change, axis=-1)

    def mode(self) -> Numbers:
        """The mean of the normal distributions, as is usual; after `tanh` it is the median."""
        return self.mean

    def to_environment(self, action: Numbers) -> Numbers:
        """The squashed action."""
        middle, half = self._bounds()
        return self.actions.clip(middle + half * jnp.tanh(action))

    def from_environment(self, action: Numbers) -> Numbers:
        """The number before `tanh`; an action at a bound is taken as one just inside."""
        middle, half = self._bounds()
        inside = 1.0 - 1e-6
        return jnp.arctanh(jnp.clip((action - middle) / half, -inside, inside))


_NODES, _WEIGHTS = np.asarray(np.polynomial.hermite_e.hermegauss(16), np.float32)
"""Of Gauss-Hermite quadrature; the weights add up to `sqrt(2 pi)`."""


def _log_derivative(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The logarithm of the derivative of `tanh`."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


def _check_size(name: str, parameters: Any, actions: ActionSpace) -> None:
    if parameters.shape[-1:] != (actions.num_parameters,):
        raise ValueError(
            f"{name} is of shape {parameters.shape}; expected {actions.num_parameters} numbers for "
            f"{actions}: spec.actions.num_parameters"
        )


def distribution_of(
    actions: ActionSpace, parameters: Parameters, mask: Masks, *, squash: bool = False
) -> Distribution:
    """The distribution of a space; `squash` chooses `TanhGaussian` for a `Box`."""
    if isinstance(actions, Box):
        return (TanhGaussian if squash else DiagonalGaussian)(parameters, actions)
    if isinstance(actions, MultiDiscrete):
        return ProductOfCategoricals(parameters, mask, actions)
    return MaskedCategorical(parameters, mask)
