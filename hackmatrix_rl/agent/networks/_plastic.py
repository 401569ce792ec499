"""A network with plastic weights as its memory."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import RecurrentActorCritic
from hackmatrix_rl.agent.networks._layers import Dense, DenseHeads, Heads
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.system.errors import counts, finite

MOST_KEPT = 0.9999
"""Upper bound of the decay factor: with 1, the modulations could grow without bound."""


@jax.custom_vjp
def _clamped(decay: Float32[Array, ""]) -> Float32[Array, ""]:
    """The decay clipped to [0, MOST_KEPT]; outside, only gradients that lead back inside pass.

    `jnp.clip` has no gradient outside: a decay that left the interval would never return.
    """
    return jnp.clip(decay, 0.0, MOST_KEPT)


def _clamped_forward(decay: Float32[Array, ""]) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    return _clamped(decay), decay


def _clamped_backward(
    decay: Float32[Array, ""], slope: Float32[Array, ""]
) -> tuple[Float32[Array, ""]]:
    stays = ((decay > MOST_KEPT) & (slope < 0)) | ((decay < 0) & (slope > 0))
    return (jnp.where(stays, 0.0, slope),)


_clamped.defvjp(_clamped_forward, _clamped_backward)


class PlasticCell(eqx.Module):
    """One step of a multi-plasticity layer, whose weights `W` are multiplied by modulations `M`.

        h = tanh(b + (W * (M + 1)) @ x)
        M' = decay * M + rate * outer(h, x)

    `M`, of the shape of `W`, is the only memory, and is initially 0. `decay` is clamped to
    [0, MOST_KEPT]. The product with `W` alone is in the dtype of the weights; the modulations and
    everything computed from them are float32.

    Source: Aitken and Mihalas 2023, "Neural population dynamics of computing with synaptic
    modulations".

    Attributes:
        inwards: the weights `W`, stored as `[inputs, width]`, and the biases `b`.
        rate: the learning rate of the modulations, `eta`; trained.
        decay: the decay factor of the modulations, `lambda`; trained, and initially 0.99.
        plastic: whether the modulations change. If not, the layer has no memory.
    """

    inwards: Dense
    rate: Float[Array, ""]
    decay: Float[Array, ""]
    plastic: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, width: int, *, rate: float, plastic: bool, key: Key[Array, ""]
    ) -> None:
        self.inwards = Dense(inputs, width, gain=1.0, key=key)
        self.rate = jnp.full((), rate, jnp.float32)
        self.decay = jnp.full((), 0.99, jnp.float32)
        self.plastic = plastic

    def __call__(
        self,
        driven: Float32[Array, " width"],
        x: Float32[Array, " inputs"],
        modulations: Float32[Array, "inputs width"],
    ) -> tuple[Float32[Array, " width"], Float32[Array, "inputs width"]]:
        """The output and the next modulations; `driven` is `inwards(x)`."""
        if not self.plastic:
            return jnp.tanh(driven), modulations
        weight = self.inwards.weight.astype(jnp.float32)
        # Not a matrix product: the modulations differ between environments.
        changed = jnp.sum(x[:, None] * weight * modulations, axis=0)
        output = jnp.tanh(driven + changed)
        decay = _clamped(self.decay.astype(jnp.float32))
        written = self.rate.astype(jnp.float32) * jnp.outer(x, output)
        return output, decay * modulations + written


@final
class MPNActorCritic(RecurrentActorCritic):
    """A multi-plasticity network: a layer with plastic weights (`cell`), and the heads.

    The layer's last input is always 1. Modulations multiply inputs, so without it, the layer could
    neither store nor recall anything while all features are 0.

    Each environment has `(features + 1) * width` modulations: with many features, project them
    first.

    Attributes:
        cell: the layer.
        projection: fixed random weights before the layer, which are not trained; `None`: the
            inputs of the layer are the features.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    projection: Float[Array, "features inputs"] | None
    cell: PlasticCell
    heads: Heads

    def __init__(
        self,
        spec: EnvSpec,
        *,
        width: int = 128,
        rate: float = 0.01,
        projection: int | None = None,
        plastic: bool = True,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights.

        Args:
            spec: the spec of the environment.
            width: the size of the layer.
            rate: the initial learning rate of the modulations; it is trained. Training is easier
                with 0.3 than with 0.01.
            projection: the number of outputs of a fixed random projection of the features, with
                weights of variance `1 / features`; `None`: no projection.
            plastic: whether the modulations change. If not, the network is a control of the same
                size without memory.
            key: source of randomness for the weights.

        Raises:
            ValueError: a size is less than 1, or `rate` is not finite.
        """
        counts(width=width)
        if projection is not None:
            counts(projection=projection)
        cell_key, head_key, projection_key = jax.random.split(key, 3)
        features = spec.num_features
        self.encode = spec.encode
        self.projection = None
        if projection is not None:
            drawn = jax.random.normal(projection_key, (features, projection))
            self.projection = drawn / features**0.5
        inputs = (projection or features) + 1
        rate = finite("rate", rate)
        self.cell = PlasticCell(inputs, width, rate=rate, plastic=plastic, key=cell_key)
        self.heads = DenseHeads(width, spec.actions, key=head_key)

    def initial_carry(self) -> Float32[Array, "inputs width"]:
        return jnp.zeros(self.cell.inwards.weight.shape, jnp.float32)

    def drive(
        self, observation: PyTree[Array]
    ) -> tuple[Float32[Array, " width"], Float32[Array, " inputs"]]:
        """The layer's input times the weights `W`, and the input."""
        x = self.encode(observation).ravel().astype(jnp.float32)
        if self.projection is not None:
            x = x @ jax.lax.stop_gradient(self.projection).astype(jnp.float32)
        x = jnp.append(x, jnp.float32(1))
        return self.cell.inwards.full(x), x

    def advance(
        self,
        driven: tuple[Float32[Array, " width"], Float32[Array, " inputs"]],
        carry: Float32[Array, "inputs width"],
    ) -> tuple[Float32[Array, " width"], Float32[Array, "inputs width"]]:
        return self.cell(*driven, carry)
