"""Layers of the networks."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key

from hackmatrix_rl.agent.networks._distributions import (
    Distribution,
    MaskedCategorical,
    Masks,
    Parameters,
    distribution_of,
)
from hackmatrix_rl.env import ActionSpace, Box
from hackmatrix_rl.system import quickly_compiled

HIDDEN_GAIN = 2**0.5
"""Gain of the orthogonal initialisation of a layer before a ReLU."""
POLICY_GAIN = 0.01
"""Gain of the policy head: the first policy is close to uniform over the legal actions."""
VALUE_GAIN = 1.0


class Dense(eqx.Module):
    """A linear map with orthogonal initialisation.

    The weight is `[inputs, outputs]`, so under `jax.vmap` the layer is one matrix product
    `[batch, inputs] @ [inputs, outputs]` without a transposition.

    Source: Saxe et al. 2014 (the initialisation); Andrychowicz et al. 2021, "What matters in
    on-policy reinforcement learning" (the gains).
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights; `gain` is a factor on the orthogonal matrix, the bias starts at 0."""
        self.weight = _orthogonal(key, inputs, outputs, gain)
        self.bias = jnp.zeros((outputs,), jnp.float32)

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """Maps each row, in the dtype of the weights."""
        self._check_inputs(x)
        product = x.astype(self.weight.dtype) @ self.weight
        return plus_bias(product, self.bias)

    def full(self, x: Float[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """Maps each row, with sums and outputs in float32 for every dtype of the weights."""
        self._check_inputs(x)
        product = jnp.matmul(
            x.astype(self.weight.dtype), self.weight, preferred_element_type=jnp.float32
        )
        return product + _broadcastable(self.bias, product)

    def _check_inputs(self, x: Float[Array, "*rows some"]) -> None:
        """Raises an error that names observations, before XLA raises one that does not."""
        inputs = self.weight.shape[0]
        if x.shape[-1] != inputs:
            raise ValueError(
                f"a layer of {inputs} inputs received {x.shape[-1]} numbers. A network takes ONE "
                "observation of the environment that it was built for; for a batch use "
                "jax.vmap(network)(observations, carries)"
            )


def hidden_layers(inputs: int, width: int, keys: Iterable[Key[Array, ""]]) -> tuple[Dense, ...]:
    """A sequence of dense layers with ReLU activations, one for each key."""
    return tuple(
        Dense(width if place else inputs, width, gain=HIDDEN_GAIN, key=key)
        for place, key in enumerate(keys)
    )


# Compiles one small program for each layer, instead of one for each operation.
@quickly_compiled
def _orthogonal(
    key: Key[Array, ""], inputs: int, outputs: int, gain: float
) -> Float32[Array, "inputs outputs"]:
    return jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs), jnp.float32)


def plus_bias(
    product: Float[Array, "*rows outputs"], bias: Float[Array, " outputs"]
) -> Float[Array, "*rows outputs"]:
    """Adds a bias to each row, and returns the dtype of the product.

    The addition is in float32, the dtype in which its backward pass then sums the bias gradient
    over the full batch.
    """
    full = _broadcastable(bias, product)
    return (product.astype(jnp.float32) + full).astype(product.dtype)


@jax.custom_vjp
def rectified(x: Float[Array, "*shape"]) -> Float[Array, " size"]:
    """`jax.nn.relu(x).ravel()`, whose gradient is computed once and stored.

    XLA would recompute the gradient of `relu` in each sum and product that reads it.
    """
    return jax.nn.relu(x).ravel()


def _rectified(x: Float[Array, "*shape"]) -> tuple[Array, tuple[Array, tuple[int, ...]]]:
    positive = rectified(x)
    return positive, (positive, x.shape)


def _rectified_gradient(kept: Any, grads: Float[Array, " size"]) -> tuple[Array]:
    positive, shape = kept
    return (jax.lax.optimization_barrier(jnp.where(positive > 0, grads, 0)).reshape(shape),)


rectified.defvjp(_rectified, _rectified_gradient)


def _broadcastable(
    bias: Float[Array, " outputs"], product: Float[Array, "*rows outputs"]
) -> Float32[Array, "*ones outputs"]:
    """The bias in float32, with as many axes as the product."""
    return bias.astype(jnp.float32).reshape(*(1 for _ in product.shape[:-1]), -1)


def self_attention(
    projected: Float[Array, "positions inputs"],
    heads: int,
    encode_positions: Callable[[Array], Array] = lambda x: x,
) -> Float[Array, "positions width"]:
    """Scaled dot-product attention of each head, with the outputs of all heads concatenated.

    `projected` has the queries, keys and values of all heads, in this order. `encode_positions`
    maps queries and keys, `[positions, heads, size]`.
    """
    parts = projected.reshape(projected.shape[0], 3, heads, -1)
    query, key, value = encode_positions(parts[:, 0]), encode_positions(parts[:, 1]), parts[:, 2]
    scores = jnp.einsum("ihd,jhd->hij", query, key, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores * query.shape[-1] ** -0.5, axis=-1)
    outputs = jnp.einsum("hij,jhd->ihd", weights.astype(value.dtype), value)
    return outputs.reshape(outputs.shape[0], -1)


class LayerNorm(eqx.Module):
    """Normalisation of a vector to mean 0 and standard deviation 1, then scaled and shifted.

    It computes in float32: 16 bits are too few for sums over a wide layer.

    Source: Ba et al. 2016, "Layer normalization".
    """

    scale: Float[Array, " width"]
    shift: Float[Array, " width"]

    def __init__(self, width: int) -> None:
        """Starts with a scale of 1 and a shift of 0."""
        self.scale = jnp.ones((width,), jnp.float32)
        self.shift = jnp.zeros((width,), jnp.float32)

    def __call__(self, x: Float[Array, " width"]) -> Float[Array, " width"]:
        """Normalises a vector; the output has the dtype of the parameters."""
        full = x.astype(jnp.float32)
        normal = (full - jnp.mean(full)) * jax.lax.rsqrt(jnp.var(full) + 1e-5)
        scaled = normal * self.scale.astype(jnp.float32) + self.shift.astype(jnp.float32)
        return scaled.astype(self.scale.dtype)


HeadOutputs = tuple[Float32[Array, " num_parameters"], Float32[Array, ""]]


class ValueHead(eqx.Module):
    """A value head and its loss."""

    @abstractmethod
    def __call__(self, hidden: Float[Array, " inputs"]) -> Float32[Array, ""]:
        """The value, in units of the network."""

    @abstractmethod
    def loss(
        self, hidden: Float[Array, " inputs"], target: Float32[Array, ""]
    ) -> Float32[Array, ""]:
        """The loss of a value with a target, in units of the network."""


class Heads(eqx.Module):
    """Parameters of the distribution, such as logits, and the value from the output of a trunk.

    Both are float32.
    """

    #: A dense layer, trained by squared errors, or a `ValueHead`, which defines its loss.
    value: eqx.AbstractVar[Dense | ValueHead]

    @abstractmethod
    def __call__(self, hidden: Float[Array, " inputs"]) -> HeadOutputs:
        """The parameters of the distribution, and the value."""

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        """As in `ActorCritic`."""
        return MaskedCategorical(parameters, mask)

    @abstractmethod
    def value_input(self, hidden: Float[Array, " inputs"]) -> Float[Array, " some"]:
        """The part of the trunk's output that the value head reads."""

    @final
    def value_loss(
        self, hidden: Float[Array, " inputs"], target: Float32[Array, ""]
    ) -> Float32[Array, ""] | None:
        """The loss of a `ValueHead`, in units of the network; `None` for a dense value head."""
        if isinstance(self.value, Dense):
            return None
        return self.value.loss(self.value_input(hidden), target)


def apply_value(head: Dense | ValueHead, hidden: Float[Array, " inputs"]) -> Float32[Array, ""]:
    """The value from a dense layer or a `ValueHead`."""
    return head.full(hidden)[0] if isinstance(head, Dense) else head(hidden)


@final
class DenseHeads(Heads):
    """One dense layer for the parameters of the distribution and one for the value.

    Attributes:
        log_std: logarithms of the standard deviations of a `Box`, the same for all observations;
            `None` if the dense layer has them, or for another space.
        squash: whether a `Box` has a `TanhGaussian`.
    """

    policy: Dense
    value: Dense | ValueHead
    log_std: Float[Array, " k"] | None
    actions: ActionSpace = eqx.field(static=True)
    squash: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        actions: ActionSpace,
        *,
        own_std: bool = False,
        squash: bool = False,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights; with `own_std`, each observation has its own standard deviations."""
        policy_key, value_key = jax.random.split(key)
        outputs = actions.num_parameters
        self.log_std = None
        if isinstance(actions, Box) and not own_std:
            outputs = len(actions.low)
            self.log_std = jnp.zeros((outputs,), jnp.float32)
        self.policy = Dense(inputs, outputs, gain=POLICY_GAIN, key=policy_key)
        self.value = Dense(inputs, 1, gain=VALUE_GAIN, key=value_key)
        self.actions, self.squash = actions, squash

    def __call__(self, hidden: Float[Array, " inputs"]) -> HeadOutputs:
        value = self.value
        output = _to_few(value, hidden)[0] if isinstance(value, Dense) else value(hidden)
        parameters = _to_few(self.policy, hidden)
        if self.log_std is not None:
            parameters = jnp.concatenate([parameters, self.log_std.astype(jnp.float32)])
        return parameters, output

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        return distribution_of(self.actions, parameters, mask, squash=self.squash)

    def value_input(self, hidden: Float[Array, " inputs"]) -> Float[Array, " some"]:
        return hidden


def _to_few(layer: Dense, x: Float[Array, " inputs"]) -> Float32[Array, " outputs"]:
    """`layer.full(x)`, with a faster gradient for few outputs.

    The gradient of the weight is a matrix product. On a CPU it is twice as fast with the few
    outputs as rows than as columns. The barrier prevents XLA from transposing it back.
    """
    weight = jax.lax.optimization_barrier(layer.weight.T)
    product = jnp.einsum(
        "i,oi->o", x.astype(weight.dtype), weight, preferred_element_type=jnp.float32
    )
    return product + layer.bias.astype(jnp.float32)
