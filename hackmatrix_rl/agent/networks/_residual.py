"""A deep network of residual blocks, for large sizes."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, DenseHeads, Heads, LayerNorm
from hackmatrix_rl.agent.networks._trunk import BlockActorCritic
from hackmatrix_rl.env import EnvSpec, Features


class ResidualBlock(eqx.Module):
    """The input, plus two dense layers applied to the normalised input.

    The sum over all blocks is float32: 16 bits would round away the small changes of a deep
    network. The layers compute in the dtype of their weights.

    Attributes:
        norm: before the layers, so an untransformed path leads through all blocks.
        widen: to several times the width, with a rectifier.
        narrow: back to the width.
    """

    norm: LayerNorm
    widen: Dense
    narrow: Dense

    def __init__(self, width: int, inner: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights.

        Args:
            width: size of input and output.
            inner: size between the layers.
            gain: of the second layer's initialisation.
            key: randomness of the weights.
        """
        widen_key, narrow_key = jax.random.split(key)
        self.norm = LayerNorm(width)
        self.widen = Dense(width, inner, gain=HIDDEN_GAIN, key=widen_key)
        self.narrow = Dense(inner, width, gain=gain, key=narrow_key)

    def __call__(self, hidden: Float32[Array, " width"]) -> Float32[Array, " width"]:
        """The input plus the output of the block's layers."""
        return hidden + self.narrow.full(jax.nn.relu(self.widen(self.norm(hidden))))


@final
class ResidualActorCritic(BlockActorCritic):
    """Residual blocks over an embedding of the whole observation. No memory.

    If the features have a board, one layer first turns each cell into a few numbers. It is the
    same layer for all cells, as in the network `cells`.

    Source: He et al. 2016, "Identity mappings in deep residual networks"; Lee et al. 2025,
    "SimBa: simplicity bias for scaling up parameters in deep reinforcement learning" (the
    block, and the normalisation before the heads).

    Attributes:
        encode: turns an observation into features.
        cell: the layer of each cell; `None` without a board.
        embed: from the features to the width of the blocks.
        blocks: all blocks as one module, each array with a leading axis of blocks. A loop
            applies them, so depth costs no time to compile.
        norm: before the heads.
        heads: logits and value.
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
        """Draws the weights.

        Args:
            spec: of the environment.
            width: units between the blocks.
            depth: number of blocks.
            channels: numbers for each cell of a board.
            expansion: units inside of a block, as a multiple of `width`.
            key: randomness of the weights.

        Raises:
            ValueError: a size is less than 1.
        """
        if min(width, depth, channels, expansion) < 1:
            raise ValueError(
                "width, depth, channels and expansion must be at least 1, not "
                f"{width}, {depth}, {channels} and {expansion}"
            )
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

        def block(key: Key[Array, ""]) -> ResidualBlock:
            # The sum of all blocks starts with about the variance of the embedding.
            return ResidualBlock(width, expansion * width, gain=depth**-0.5, key=key)

        self.blocks = eqx.filter_vmap(block)(jax.random.split(blocks_key, depth))
        self.norm = LayerNorm(width)
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The output of the last block, normalised, and the (empty) carry."""
        features = self.encode(observation)
        seen = features.flat
        if self.cell is not None:
            assert features.grid is not None  # as it had at construction
            board = jax.nn.relu(self.cell(features.grid)).ravel()
            seen = jnp.concatenate([board, features.flat.astype(board.dtype)])
        hidden = self.embed.full(seen)

        def through(hidden: Array, block: Any) -> tuple[Array, None]:
            return block(hidden), None

        hidden, _ = jax.lax.scan(through, hidden, self.blocks)
        return self.norm(hidden), carry
