"""A small convolutional network over a board."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    Dense,
    DenseHeads,
    Heads,
    plus_bias,
)
from hackmatrix_rl.agent.networks._trunk import TrunkActorCritic
from hackmatrix_rl.env import (
    EnvSpec,
    Features,
)

KERNEL = 3


class Conv(eqx.Module):
    """A 3 x 3 convolution over a board, which keeps the board's size.

    Attributes:
        weight: of the kernel's rows, columns, inputs and outputs.
        bias: one for each output.
    """

    weight: Float[Array, "3 3 inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(
        self, inputs: int, outputs: int, *, gain: float = HIDDEN_GAIN, key: Key[Array, ""]
    ) -> None:
        """Draws the weights.

        Args:
            inputs: channels of the input.
            outputs: channels of the output.
            gain: as for `Dense`.
            key: randomness of the weights.
        """
        flat = Dense(KERNEL * KERNEL * inputs, outputs, gain=gain, key=key)
        self.weight = flat.weight.reshape(KERNEL, KERNEL, inputs, outputs)
        self.bias = flat.bias

    def __call__(
        self, board: Float[Array, "rows cols inputs"]
    ) -> Float[Array, "rows cols outputs"]:
        """The board convolved and rectified, in the dtype of the weights."""
        return jax.nn.relu(self.linear(board))

    def linear(self, board: Float[Array, "rows cols inputs"]) -> Float[Array, "rows cols outputs"]:
        """The board convolved, without the rectifier."""
        convolved = jax.lax.conv_general_dilated(
            # Not `[None]`, whose gradient is a sum (of one term) in the dtype of the weights.
            board.astype(self.weight.dtype).reshape(1, *board.shape),
            self.weight,
            window_strides=(1, 1),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]
        return plus_bias(convolved, self.bias)


def grid_shape(features: Features) -> tuple[int, int, int]:
    """Rows, columns and channels of a board.

    Raises:
        ValueError: the features have no board.
    """
    if features.grid is None:
        raise ValueError(
            "this network needs an environment whose features have a grid; use the mlp or gru "
            "network here"
        )
    rows, cols, channels = features.grid.shape
    return rows, cols, channels


@final
class ConvActorCritic(TrunkActorCritic):
    """A network with one layer for all cells of a board. No memory.

    The same layer turns the features of each cell into `channels` numbers.
    Convolutions mix neighbouring cells. Dense layers see the whole board and the flat features.
    With `layers=0` only the dense layers mix cells. That is by far the fastest network on a CPU,
    where convolutions are slow.

    Attributes:
        encode: turns an observation into features.
        cell: the layer of each cell.
        convolutions: each added to its input.
        dense: the layers that see everything.
        heads: logits and value.
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
        """Draws the weights.

        Args:
            spec: the spec of an environment whose features have a grid.
            channels: numbers for each cell.
            layers: number of convolutions.
            width: units of each dense layer.
            depth: number of dense layers.
            key: randomness of the weights.

        Raises:
            ValueError: the environment has no grid, or a size is too small.
        """
        features = jax.eval_shape(spec.encode, spec.observation)
        rows, cols, inputs = grid_shape(features)
        if channels < 1 or width < 1 or depth < 1 or layers < 0:
            raise ValueError(
                "channels, width and depth must be at least 1 and layers at least 0, not "
                f"{channels}, {width}, {depth} and {layers}"
            )
        cell_key, conv_key, dense_key, head_key = jax.random.split(key, 4)
        sizes = [rows * cols * channels + features.flat.size] + [width] * depth
        self.encode = spec.encode
        self.cell = Dense(inputs, channels, gain=HIDDEN_GAIN, key=cell_key)
        self.convolutions = tuple(
            Conv(channels, channels, key=k) for k in jax.random.split(conv_key, layers)
        )
        self.dense = tuple(
            Dense(size, width, gain=HIDDEN_GAIN, key=k)
            for size, k in zip(sizes[:-1], jax.random.split(dense_key, depth), strict=True)
        )
        self.heads = DenseHeads(width, spec.num_actions, key=head_key)

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The last hidden layer, and the (empty) carry."""
        features = self.encode(observation)
        assert features.grid is not None  # checked at construction
        board = jax.nn.relu(self.cell(features.grid))
        for convolution in self.convolutions:
            board = board + convolution(board).astype(board.dtype)
        hidden = jnp.concatenate([board.ravel(), features.flat.astype(board.dtype)])
        for layer in self.dense:
            hidden = jax.nn.relu(layer(hidden))
        return hidden, carry
