"""Networks of dense layers over the full observation."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    BlockActorCritic,
    DenseInputActorCritic,
    TrunkOutput,
)
from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    Dense,
    DenseHeads,
    Heads,
    LayerNorm,
    hidden_layers,
)
from hackmatrix_rl.env import EnvSpec, Features, FeatureSplit
from hackmatrix_rl.system.errors import counts


@final
class MLPActorCritic(DenseInputActorCritic):
    """Dense layers with ReLU activations, shared by policy and value. No memory.

    On HackMatrix, most of the arithmetic is in the first layer. On a CPU,
    `SparseFirstLayerEvaluator` skips the features there that are 0 or unchanged since the previous
    step.

    Attributes:
        split: the split of the features of `encode`; `None` if the spec has none.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    split: FeatureSplit | None = eqx.field(static=True)
    layers: tuple[Dense, ...]
    heads: Heads

    def __init__(
        self, spec: EnvSpec, *, width: int = 256, depth: int = 2, key: Key[Array, ""]
    ) -> None:
        """Draws the weights: `depth` hidden layers of `width` units.

        Raises:
            ValueError: `width` or `depth` is less than 1.
        """
        counts(width=width, depth=depth)
        head_key, *keys = jax.random.split(key, depth + 1)
        self.encode = spec.encode
        self.split = spec.split
        self.layers = hidden_layers(spec.num_features, width, keys)
        self.heads = DenseHeads(width, spec.actions, key=head_key)

    @property
    def first_layer(self) -> Dense:
        return self.layers[0]

    def above_first(self, first: Float[Array, " width"]) -> Float[Array, " width"]:
        hidden = jax.nn.relu(first)
        for layer in self.layers[1:]:
            hidden = jax.nn.relu(layer(hidden))
        return hidden


class ResidualBlock(eqx.Module):
    """Two dense layers over the normalised input, with a residual connection.

    The sum over all blocks is float32: 16 bits would round away the small changes of a deep
    network. The layers compute in the dtype of their weights.
    """

    norm: LayerNorm
    widen: Dense
    narrow: Dense

    def __init__(self, width: int, inner: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights; `inner` is the width between the layers."""
        widen_key, narrow_key = jax.random.split(key)
        self.norm = LayerNorm(width)
        self.widen = Dense(width, inner, gain=HIDDEN_GAIN, key=widen_key)
        self.narrow = Dense(inner, width, gain=gain, key=narrow_key)

    def __call__(self, hidden: Float32[Array, " width"]) -> Float32[Array, " width"]:
        return hidden + self.narrow.full(jax.nn.relu(self.widen(self.norm(hidden))))


@final
class ResidualActorCritic(BlockActorCritic):
    """Residual blocks over an embedding of the full observation. No memory.

    If the features have a grid, a layer that all cells share first embeds each cell, as in the
    network `cells`.

    Source: He et al. 2016, "Identity mappings in deep residual networks"; Lee et al. 2025,
    "SimBa: simplicity bias for scaling up parameters in deep reinforcement learning" (the
    block, and the normalisation before the heads).

    Attributes:
        cell: the layer of each cell; `None` without a grid.
        embed: from the features to the width of the blocks.
        norm: before the heads.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Dense | None
    embed: Dense
    blocks: Callable[[Array], Array]
    norm: LayerNorm
    heads: Heads

    def __init__(
        self,
        spec: EnvSpec,
        *,
        width: int = 128,
        depth: int = 4,
        channels: int = 16,
        expansion: int = 4,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights: `depth` blocks of `width` units, and `expansion * width` inside.

        A cell of a grid becomes `channels` numbers.

        Raises:
            ValueError: a size is less than 1.
        """
        counts(width=width, depth=depth, channels=channels, expansion=expansion)
        features = jax.eval_shape(spec.encode, spec.observation)
        cell_key, embed_key, blocks_key, head_key = jax.random.split(key, 4)
        self.encode = spec.encode
        inputs = features.flat.size
        self.cell = None
        if features.grid is not None:
            rows, cols, numbers = features.grid.shape
            self.cell = Dense(numbers, channels, gain=HIDDEN_GAIN, key=cell_key)
            inputs += rows * cols * channels
        self.embed = Dense(inputs, width, gain=1.0, key=embed_key)
        # The sum of all blocks starts with about the variance of the embedding.
        self.blocks = eqx.filter_vmap(
            lambda key: ResidualBlock(width, expansion * width, gain=depth**-0.5, key=key)
        )(jax.random.split(blocks_key, depth))
        self.norm = LayerNorm(width)
        self.heads = DenseHeads(width, spec.actions, key=head_key)

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        features = self.encode(observation)
        seen = features.flat
        if self.cell is not None:
            assert features.grid is not None  # as at construction
            board = jax.nn.relu(self.cell(features.grid)).ravel()
            seen = jnp.concatenate([board, features.flat.astype(board.dtype)])
        return self.norm(self.through_blocks(self.embed.full(seen))), carry
