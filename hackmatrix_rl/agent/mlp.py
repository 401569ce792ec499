"""A multi-layer perceptron over the whole observation."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from hackmatrix_rl.agent.layers import HIDDEN_GAIN, Dense, Heads
from hackmatrix_rl.agent.trunk import TrunkActorCritic
from hackmatrix_rl.env.environment import EnvSpec, Features


class MLPActorCritic(TrunkActorCritic):
    """Dense layers with rectifiers, shared by policy and value. No memory.

    Attributes:
        encode: turns an observation into features.
        layers: the hidden layers.
        heads: logits and value.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    layers: tuple[Dense, ...]
    heads: Heads

    def __init__(
        self, spec: EnvSpec, *, width: int = 256, depth: int = 2, key: Key[Array, ""]
    ) -> None:
        """Draws the weights.

        Args:
            spec: of the environment.
            width: units of each hidden layer.
            depth: number of hidden layers.
            key: randomness of the weights.

        Raises:
            ValueError: `width` or `depth` is less than 1.
        """
        if width < 1 or depth < 1:
            raise ValueError(f"width and depth must be at least 1, not {width} and {depth}")
        head_key, *keys = jax.random.split(key, depth + 1)
        inputs = jax.eval_shape(lambda o: spec.encode(o).ravel(), spec.observation).size
        sizes = [inputs] + [width] * depth
        self.encode = spec.encode
        self.layers = tuple(
            Dense(size, width, gain=HIDDEN_GAIN, key=k)
            for size, k in zip(sizes[:-1], keys, strict=True)
        )
        self.heads = Heads(width, spec.num_actions, key=head_key)

    def initial_carry(self) -> tuple[()]:
        """Nothing: there is no memory."""
        return ()

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The last hidden layer, and the (empty) carry."""
        hidden: Float[Array, " width"] = self.encode(observation).ravel()
        for layer in self.layers:
            hidden = jax.nn.relu(layer(hidden))
        return hidden, carry
