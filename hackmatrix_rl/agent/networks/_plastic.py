"""A network whose memory lies in its weights."""

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
"""The largest share of the modulations that is kept in a step: with 1, they would grow forever."""


@jax.custom_vjp
def _clamped(decay: Float32[Array, ""]) -> Float32[Array, ""]:
    """The decay clipped to [0, MOST_KEPT]; outside, only gradients that point back inside pass.

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
    """One step of a multi-plasticity layer: modulations `M` multiply its weights `W`.

        h = tanh(b + (W * (M + 1)) @ x)
        M' = decay * M + rate * outer(h, x)

    `M`, of the shape of `W`, is the only memory, and is 0 at first. `decay` is clamped to
    [0, MOST_KEPT]. The first product, with `W` alone, is in the dtype of the weights; the
    modulations and all that they change are float32.

    Source: Aitken and Mihalas 2023, "Neural population dynamics of computing with synaptic
    modulations".

    Attributes:
        inwards: the weights `W`, stored as `[inputs, width]`, and the biases `b`.
        rate: how much of a step is written, `eta`; learned.
        decay: the share that is kept, `lambda`; learned, and 0.99 at first.
        plastic: whether anything is written. Without, the layer has no memory.
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
        """The output and the next modulations; `driven` is `inwards` of `x`, without these."""
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
    """A multi-plasticity network: a layer whose weights remember (`cell`), and the heads.

    The layer's last input is always 1. What its weights remember multiplies what it sees, so
    without that input it would remember nothing while nothing is seen.

    Each environment has modulations of `(features + 1) * width` numbers: with many features,
    project them first.

    Attributes:
        cell: the layer.
        projection: fixed random weights before the layer, which have no gradient; `None`: the
            layer sees the features.
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
            spec: of the environment.
            width: of the layer.
            rate: how much of a step is written at first; it is learned. 0.3 is easier to learn
                from than 0.01.
            projection: numbers to which a fixed random map, of variance 1 a number, reduces the
                features; `None`: no map.
            plastic: whether the layer's weights change with what it sees. Without, the network is
                a control of the same size that remembers nothing.
            key: of the weights.

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
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    def initial_carry(self) -> Float32[Array, "inputs width"]:
        return jnp.zeros(self.cell.inwards.weight.shape, jnp.float32)

    def drive(
        self, observation: PyTree[Array]
    ) -> tuple[Float32[Array, " width"], Float32[Array, " inputs"]]:
        """What the weights make of the layer's input, and the input."""
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
        """One step of the memory: the output of the layer, and the next modulations."""
        return self.cell(*driven, carry)
