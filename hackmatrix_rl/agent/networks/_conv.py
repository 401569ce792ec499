"""Convolutional networks over a board."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._action_heads import ActionEmbeddings, ActionHeads, ActionTokens
from hackmatrix_rl.agent.networks._actor_critic import (
    BlockActorCritic,
    TrunkActorCritic,
    TrunkOutput,
)
from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    Dense,
    DenseHeads,
    Heads,
    LayerNorm,
    hidden_layers,
    plus_bias,
    rectified,
)
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.system.batching import is_dense
from hackmatrix_rl.system.errors import counts, whole

KERNEL = 3


class Conv(eqx.Module):
    """A 3 x 3 convolution over a board, zero-padded to keep the board's size."""

    weight: Float[Array, "3 3 inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(
        self, inputs: int, outputs: int, *, gain: float = HIDDEN_GAIN, key: Key[Array, ""]
    ) -> None:
        flat = Dense(KERNEL * KERNEL * inputs, outputs, gain=gain, key=key)
        self.weight = flat.weight.reshape(KERNEL, KERNEL, inputs, outputs)
        self.bias = flat.bias

    def __call__(
        self, board: Float[Array, "rows cols inputs"]
    ) -> Float[Array, "rows cols outputs"]:
        """The convolution with a ReLU, in the dtype of the weights."""
        return jax.nn.relu(self.linear(board))

    def linear(self, board: Float[Array, "rows cols inputs"]) -> Float[Array, "rows cols outputs"]:
        """The convolution without the ReLU."""
        return plus_bias(_convolve(board.astype(self.weight.dtype), self.weight), self.bias)


def _convolution(
    board: Float[Array, "rows cols inputs"], weight: Float[Array, "3 3 inputs outputs"]
) -> Float[Array, "rows cols outputs"]:
    return jax.lax.conv_general_dilated(
        # Not `[None]`, whose gradient is a sum (of one term) in the dtype of the weights.
        board.reshape(1, *board.shape),
        weight,
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0]


def _product_of_patches(
    board: Float[Array, "rows cols inputs"], weight: Float[Array, "3 3 inputs outputs"]
) -> Float[Array, "rows cols outputs"]:
    """The convolution as one matrix product with the 3 x 3 patch of each cell."""
    rows, cols, _ = board.shape
    padded = jnp.pad(board, ((1, 1), (1, 1), (0, 0)))
    patches = [
        padded[row : row + rows, col : col + cols] for row in range(KERNEL) for col in range(KERNEL)
    ]
    return jnp.concatenate(patches, axis=-1) @ weight.reshape(-1, weight.shape[-1])


_convolve = jax.custom_jvp(_convolution)
"""The convolution, whose gradient on a CPU is computed by matrix products.

Training scans over minibatches, and inside a loop XLA's own gradient of a convolution is many times
slower on a CPU (`benchmarks/convolution.py`).
"""


@_convolve.defjvp
def _convolve_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    def derivative(of: Callable[[Array, Array], Array]) -> Callable[..., Array]:
        return lambda board, weight, d_board, d_weight: of(d_board, weight) + of(board, d_weight)

    changed: Array = jax.lax.platform_dependent(
        *primals, *tangents, cpu=derivative(_product_of_patches), default=derivative(_convolution)
    )
    return _convolution(*primals), changed


def feature_sizes(spec: EnvSpec) -> tuple[int, int, int, int]:
    """Rows, columns and channels of the grid, and the number of flat features.

    Raises a ValueError if the features have no grid.
    """
    features = jax.eval_shape(spec.encode, spec.observation)
    if features.grid is None:
        raise ValueError(
            "this network needs an environment whose features have a grid; use the mlp or gru "
            "network here"
        )
    rows, cols, channels = features.grid.shape
    return rows, cols, channels, features.flat.size


@final
class ConvActorCritic(TrunkActorCritic):
    """Residual convolutions over a board, then dense layers. No memory.

    A layer that all cells share turns the features of each cell into `channels` numbers.
    Convolutions mix neighbouring cells. Dense layers read the full board and the flat features.
    With `layers=0` only the dense layers mix cells: by far the fastest network on a CPU, where
    convolutions are slow.

    Attributes:
        cell: the layer of each cell.
        convolutions: the residual convolutions.
        dense: the dense layers over the board and the flat features.
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Dense
    convolutions: tuple[Conv, ...]
    dense: tuple[Dense, ...]
    heads: Heads

    def __init__(
        self,
        spec: EnvSpec,
        *,
        channels: int = 16,
        layers: int = 1,
        width: int = 128,
        depth: int = 2,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights: `layers` convolutions of `channels`, `depth` dense layers of `width`.

        Raises:
            ValueError: the environment has no grid, or a size is too small.
        """
        rows, cols, numbers, num_flat = feature_sizes(spec)
        counts(channels=channels, width=width, depth=depth)
        whole("layers", layers, 0)
        cell_key, conv_key, dense_key, head_key = jax.random.split(key, 4)
        inputs = rows * cols * channels + num_flat
        self.encode = spec.encode
        self.cell = Dense(numbers, channels, gain=HIDDEN_GAIN, key=cell_key)
        self.convolutions = tuple(
            Conv(channels, channels, key=k) for k in jax.random.split(conv_key, layers)
        )
        self.dense = hidden_layers(inputs, width, jax.random.split(dense_key, depth))
        self.heads = DenseHeads(width, spec.actions, key=head_key)

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        board = self.cell(features.grid)
        if is_dense() and not self.convolutions:
            cells = rectified(board)
        else:
            board = jax.nn.relu(board)
            for convolution in self.convolutions:
                board = board + convolution(board).astype(board.dtype)
            cells = board.ravel()
        hidden = jnp.concatenate([cells, features.flat.astype(board.dtype)])
        for layer in self.dense:
            hidden = jax.nn.relu(layer(hidden))
        return hidden, carry


READ = 16
"""Channels of each cell that the layer over the full board reads."""


class ConvBlock(eqx.Module):
    """Two convolutions over normalised cells; the residual sum is float32."""

    norm: LayerNorm
    first: Conv
    second: Conv

    def __init__(self, width: int, *, gain: float, key: Key[Array, ""]) -> None:
        """Draws the weights; `gain` scales the second convolution."""
        first_key, second_key = jax.random.split(key)
        self.norm = LayerNorm(width)
        self.first = Conv(width, width, key=first_key)
        self.second = Conv(width, width, gain=gain, key=second_key)

    def __call__(
        self, board: Float32[Array, "rows cols width"]
    ) -> Float32[Array, "rows cols width"]:
        normal = jax.vmap(jax.vmap(self.norm))(board)
        return board + self.second.linear(self.first(normal)).astype(jnp.float32)


@final
class ResNetActorCritic(BlockActorCritic):
    """Residual 3 x 3 convolutions, with an embedding of each action. No memory.

    One layer turns the features of each cell into `width` numbers, and another adds the flat
    features to all cells. After the blocks, a dense layer reads the full board and queries the
    actions: a direction is embedded from the player's adjacent cell, a program from its token.

    Source: He et al. 2016, "Identity mappings in deep residual networks"; Silver et al. 2017,
    "Mastering the game of Go without human knowledge" (a tower of residual convolutions).
    """

    encode: Callable[[PyTree], Features] = eqx.field(static=True)
    cell: Dense  #: The layer of each cell.
    flat: Dense  #: The layer of the flat features.
    blocks: Callable[[Array], Array]
    norm: LayerNorm  #: Of each cell, after the blocks.
    read: Dense  #: Reduces each cell to `READ` channels.
    dense: Dense  #: Over these and the flat features.
    tokens: ActionTokens  #: Of the actions that concern no cell.
    embeddings: ActionEmbeddings  #: Of all actions.
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
        """Draws the weights: `width` channels, `depth` blocks, and a dense layer of `units`.

        Raises:
            ValueError: the environment has no grid, or a size is less than 1.
        """
        counts(width=width, depth=depth, units=units)
        rows, cols, channels, num_flat = feature_sizes(spec)
        keys = iter(jax.random.split(key, 8))
        self.encode = spec.encode
        self.cell = Dense(channels, width, gain=1.0, key=next(keys))
        self.flat = Dense(num_flat, width, gain=1.0, key=next(keys))
        # The sum of all blocks starts with about the variance of the board.
        self.blocks = eqx.filter_vmap(lambda key: ConvBlock(width, gain=depth**-0.5, key=key))(
            jax.random.split(next(keys), depth)
        )
        self.norm = LayerNorm(width)
        self.read = Dense(width, READ, gain=HIDDEN_GAIN, key=next(keys))
        inputs = rows * cols * READ + num_flat
        self.dense = Dense(inputs, units, gain=HIDDEN_GAIN, key=next(keys))
        self.tokens = ActionTokens(spec, width, key=next(keys))
        self.embeddings = ActionEmbeddings(spec, width, key=next(keys))
        self.heads = ActionHeads(units, spec.num_actions, key=next(keys))

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        board = self.cell.full(features.grid) + self.flat.full(features.flat)[None, None]
        # A loop over the blocks takes a sixth longer on a CPU.
        board = self.through_blocks(board, unroll=True)
        cells = jax.vmap(jax.vmap(self.norm))(board).reshape(-1, board.shape[-1])
        seen = jax.nn.relu(self.read(cells)).ravel()
        seen = jnp.concatenate([seen, features.flat.astype(seen.dtype)])
        hidden = jax.nn.relu(self.dense(seen))
        return self.embeddings(observation, hidden, cells, self.tokens(observation)), carry
