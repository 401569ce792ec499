"""A multi-layer perceptron over the whole observation."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, DenseHeads, Heads
from hackmatrix_rl.agent.networks._trunk import DenseInputActorCritic
from hackmatrix_rl.env import EnvSpec, Features, FeatureSplit


@final
class MLPActorCritic(DenseInputActorCritic):
    """Dense layers with rectifiers, shared by policy and value. No memory.

    On HackMatrix, most of the arithmetic is in the first layer. `SparseFirstLayerEvaluator` skips
    the features there that are 0 or equal to those of the step before.

    Attributes:
        encode: turns an observation into features.
        split: the split of these features; `None` if the spec has none.
        layers: the hidden layers.
        heads: the layers for logits and value.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    split: FeatureSplit | None = eqx.field(static=True)
    layers: tuple[Dense, ...]
    heads: Heads

    def __init__(
        self, spec: EnvSpec, *, width: int = 256, depth: int = 2, key: Key[Array, ""]
    ) -> None:
        """Draws the weights.

        Args:
            spec: the spec of the environment.
            width: units of each hidden layer.
            depth: number of hidden layers.
            key: source of randomness for the weights.

        Raises:
            ValueError: `width` or `depth` is less than 1.
        """
        if width < 1 or depth < 1:
            raise ValueError(f"width and depth must be at least 1, not {width} and {depth}")
        head_key, *keys = jax.random.split(key, depth + 1)
        sizes = [spec.num_features] + [width] * depth
        self.encode = spec.encode
        self.split = spec.split
        self.layers = tuple(
            Dense(size, width, gain=HIDDEN_GAIN, key=k)
            for size, k in zip(sizes[:-1], keys, strict=True)
        )
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    @property
    def first_layer(self) -> Dense:
        """The first of the layers."""
        return self.layers[0]

    def above_first(self, first: Float[Array, " width"]) -> Float[Array, " width"]:
        """The last hidden layer, from the output of the first layer before its rectifier."""
        hidden = jax.nn.relu(first)
        for layer in self.layers[1:]:
            hidden = jax.nn.relu(layer(hidden))
        return hidden
