"""A residual convolutional network over a board."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._action_heads import ActionEmbeddings, ActionHeads, ActionTokens
from hackmatrix_rl.agent.networks._conv import Conv, grid_shape
from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, Dense, Heads, LayerNorm
from hackmatrix_rl.agent.networks._trunk import BlockActorCritic
from hackmatrix_rl.env import EnvSpec, Features

READ = 16
"""Numbers of each cell that the layer over the whole board reads."""


class ConvBlock(eqx.Module):
    """A board, plus two convolutions applied to its normalised cells.

    The sum over all blocks is float32, as in a `ResidualBlock`.

    Attributes:
        norm: of each cell, before the convolutions.
        first: with a rectifier.
        second: added to the board.
    """

    norm: LayerNorm
    first: Conv
    second: Conv

    def __init__(self, width: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights.

        Args:
            width: channels of the board.
            gain: of the second convolution's initialisation.
            key: randomness of the weights.
        """
        first_key, second_key = jax.random.split(key)
        self.norm = LayerNorm(width)
        self.first = Conv(width, width, key=first_key)
        self.second = Conv(width, width, gain=gain, key=second_key)

    def __call__(
        self, board: Float32[Array, "rows cols width"]
    ) -> Float32[Array, "rows cols width"]:
        """The input plus the output of the block's layers."""
        normal = jax.vmap(jax.vmap(self.norm))(board)
        return board + self.second.linear(self.first(normal)).astype(jnp.float32)


@final
class ResNetActorCritic(BlockActorCritic):
    """Residual 3 x 3 convolutions, with an embedding of each action. No memory.

    One layer turns the features of each cell into `width` numbers, and another adds the flat
    features to all cells alike. After the blocks, a dense layer reads the whole board. It asks for
    an action: a direction is the cell beside the player, a program is its own embedding.

    Source: He et al. 2016, "Identity mappings in deep residual networks"; Silver et al. 2017,
    "Mastering the game of Go without human knowledge" (a tower of residual convolutions).

    Attributes:
        encode: turns an observation into features.
        cell: the layer of each cell.
        flat: the layer of the flat features.
        blocks: all blocks as one module, each array with a leading axis of blocks.
        norm: of each cell, after the blocks.
        read: a few numbers of each cell, for the next layer.
        dense: over these and the flat features.
        tokens: of the actions that are about no cell.
        embeddings: of all actions.
        heads: logits and value.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Dense
    flat: Dense
    blocks: Callable[[Array], Array]
    norm: LayerNorm
    read: Dense
    dense: Dense
    tokens: ActionTokens
    embeddings: ActionEmbeddings
    heads: Heads

    def __init__(
        self,
        spec: EnvSpec,
        *,
        width: int = 32,
        depth: int = 3,
        units: int = 128,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights.

        Args:
            spec: of an environment whose features have a grid.
            width: channels of the board.
            depth: number of blocks.
            units: of the dense layer.
            key: randomness of the weights.

        Raises:
            ValueError: the environment has no grid, or a size is less than 1.
        """
        if min(width, depth, units) < 1:
            raise ValueError(
                f"width, depth and units must be at least 1, not {width}, {depth} and {units}"
            )
        features = jax.eval_shape(spec.encode, spec.observation)
        rows, cols, channels = grid_shape(features)
        keys = iter(jax.random.split(key, 8))
        self.encode = spec.encode
        self.cell = Dense(channels, width, gain=1.0, key=next(keys))
        self.flat = Dense(features.flat.size, width, gain=1.0, key=next(keys))

        def block(key: Key[Array, ""]) -> ConvBlock:
            # The sum of all blocks starts with about the variance of the board.
            return ConvBlock(width, gain=depth**-0.5, key=key)

        self.blocks = eqx.filter_vmap(block)(jax.random.split(next(keys), depth))
        self.norm = LayerNorm(width)
        self.read = Dense(width, READ, gain=HIDDEN_GAIN, key=next(keys))
        inputs = rows * cols * READ + features.flat.size
        self.dense = Dense(inputs, units, gain=HIDDEN_GAIN, key=next(keys))
        self.tokens = ActionTokens(spec, width, key=next(keys))
        self.embeddings = ActionEmbeddings(spec, width, key=next(keys))
        self.heads = ActionHeads(units, spec.num_actions, key=next(keys))

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " inputs"], PyTree[Array]]:
        """The input of the heads, and the (empty) carry."""
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        board = self.cell.full(features.grid) + self.flat.full(features.flat)[None, None]

        def through(board: Array, block: Any) -> tuple[Array, None]:
            return block(board), None

        # A loop over the blocks takes a sixth longer on a CPU.
        board, _ = jax.lax.scan(through, board, self.blocks, unroll=True)
        cells = jax.vmap(jax.vmap(self.norm))(board).reshape(-1, board.shape[-1])
        seen = jax.nn.relu(self.read(cells)).ravel()
        seen = jnp.concatenate([seen, features.flat.astype(seen.dtype)])
        hidden = jax.nn.relu(self.dense(seen))
        return self.embeddings(observation, hidden, cells, self.tokens(observation)), carry
