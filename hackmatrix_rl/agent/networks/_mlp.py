"""A multi-layer perceptron over the whole observation."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    Dense,
    Heads,
    plus_bias,
)
from hackmatrix_rl.agent.networks._trunk import TrunkActorCritic
from hackmatrix_rl.agent.networks.sparse_first_layer import (
    keep,
    product_of_next,
    product_of_steps,
    split_features,
)
from hackmatrix_rl.env import (
    EnvSpec,
    Features,
)


class MLPActorCritic(TrunkActorCritic):
    """Dense layers with rectifiers, shared by policy and value. No memory.

    Of HackMatrix, what the features that last add to the first layer is computed once for each
    run of steps in which they are the same, and of enemies and transmissions what is there:
    that layer was nine tenths of this network's arithmetic.

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
        return self._above(self.layers[0](self.encode(observation).ravel())), carry

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """As the base class says."""
        split = split_features(self.encode)
        if split is None:
            return super().unroll_trunk(observations, carry, done)
        num_steps, batch = done.shape
        # All steps of one environment, then those of the next: so there are runs.
        rows = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), observations
        )
        product = product_of_steps(split, rows, self.layers[0].weight)
        hidden = jax.vmap(self._above)(plus_bias(product, self.layers[0].bias))
        return jnp.swapaxes(hidden.reshape(batch, num_steps, -1), 0, 1)

    def begin(self, observations: PyTree[Array]) -> PyTree[Array]:
        """What lasts on the observations, multiplied."""
        split = split_features(self.encode)
        return () if split is None else keep(split, observations, self.layers[0].weight)

    def follow(
        self, observations: PyTree[Array], carry: PyTree[Array], kept: PyTree[Array]
    ) -> tuple[
        Float32[Array, "batch num_actions"], Float32[Array, " batch"], PyTree[Array], PyTree[Array]
    ]:
        """As the base class says."""
        split = split_features(self.encode)
        if split is None:
            return super().follow(observations, carry, kept)
        first = self.layers[0]
        product, kept = product_of_next(split, observations, first.weight, kept)
        hidden = jax.vmap(self._above)(plus_bias(product, first.bias))
        logits, value = jax.vmap(self.heads)(hidden)
        return logits, value, carry, kept

    def _above(self, first: Float[Array, " width"]) -> Float[Array, " width"]:
        """The last hidden layer from the first one before its rectifier."""
        hidden = jax.nn.relu(first)
        for layer in self.layers[1:]:
            hidden = jax.nn.relu(layer(hidden))
        return hidden
