"""The cost of the gradient of convolutions on a CPU, alone and in a loop, computed in two ways.

    python benchmarks/convolution.py [--width 32] [--layers 6] [--boards 1024]

The package's `Conv` computes its gradient by matrix products; the other row is XLA's own gradient.
Figures are nanoseconds of a core per board and layer, the least of three, without compilation.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hackmatrix_rl.agent.networks._conv import Conv

Boards = Float[Array, "boards rows cols width"]


def of_xla(conv: Conv, board: Float[Array, "rows cols width"]) -> Float[Array, "rows cols width"]:
    """The same layer with XLA's gradient."""
    product = jax.lax.conv_general_dilated(
        board[None], conv.weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(product[0] + conv.bias)


def cost(
    layer: Callable[[Conv, Array], Array], convs: Conv, boards: Boards, times: int, loop: bool
) -> float:
    """Seconds of the processor for one gradient."""

    def loss(convs: Conv) -> Float[Array, ""]:
        def through(board: Array) -> Array:
            for number in range(convs.bias.shape[0]):
                board = board + layer(jax.tree.map(lambda leaf, n=number: leaf[n], convs), board)
            return board

        return jnp.mean(jax.vmap(through)(boards) ** 2)

    def descend(convs: Conv, _: None) -> tuple[Conv, None]:
        slope = jax.grad(loss)(convs)
        return jax.tree.map(lambda weight, change: weight - 1e-3 * change, convs, slope), None

    @jax.jit
    def learn(convs: Conv) -> Conv:
        return jax.lax.scan(descend, convs, length=times, unroll=1 if loop else times)[0]

    jax.block_until_ready(learn(convs))
    taken = []
    for _ in range(3):
        began = time.process_time()
        jax.block_until_ready(learn(convs))
        taken.append(time.process_time() - began)
    return min(taken) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--boards", type=int, default=1024)
    given = parser.parse_args()
    keys = jax.random.split(jax.random.key(0), given.layers)
    convs = jax.vmap(lambda key: Conv(given.width, given.width, gain=0.5, key=key))(keys)
    boards = jax.random.normal(jax.random.key(1), (given.boards, 6, 6, given.width))
    print("| gradient | alone | in a loop |")
    print("| --- | --- | --- |")
    for name, layer in (("XLA's", of_xla), ("matrix products", Conv.__call__)):
        each = [cost(layer, convs, boards, 2, loop) for loop in (False, True)]
        cells = [f"{seconds / given.boards / given.layers * 1e9:,.0f}" for seconds in each]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
