"""A multi-layer perceptron over the whole observation."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from hackmatrix_rl.agent.lasting import split_features
from hackmatrix_rl.agent.layers import HIDDEN_GAIN, Dense, Heads, plus_bias
from hackmatrix_rl.agent.runs import product_of_runs, starts_of_runs
from hackmatrix_rl.agent.trunk import TrunkActorCritic
from hackmatrix_rl.env.environment import EnvSpec, Features


class MLPActorCritic(TrunkActorCritic):
    """Dense layers with rectifiers, shared by policy and value. No memory.

    Over whole sequences, what the features that last add to the first layer is computed once
    for each run of steps in which they are the same: in HackMatrix, two thirds of this
    network's arithmetic.

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
        weight, bias = self.layers[0].weight, self.layers[0].bias
        lasting, others = split.columns(jax.tree.map(lambda leaf: leaf[0], rows))
        starts = starts_of_runs(split.seen(rows))
        product = product_of_runs(split.lasting, rows, starts, weight[lasting])
        product = product + jax.vmap(split.others)(rows).astype(weight.dtype) @ weight[others]
        hidden = jax.vmap(self._above)(plus_bias(product, bias))
        return jnp.swapaxes(hidden.reshape(batch, num_steps, -1), 0, 1)

    def _above(self, first: Float[Array, " width"]) -> Float[Array, " width"]:
        """The last hidden layer from the first one before its rectifier."""
        hidden = jax.nn.relu(first)
        for layer in self.layers[1:]:
            hidden = jax.nn.relu(layer(hidden))
        return hidden
