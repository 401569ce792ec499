"""What differs between devices in how a batch of games is computed. The results are the same bits.

A CPU computes only the games that need something, and holds the numbers of a game side by side. A
TPU takes thousands of cycles to gather a few games, and its vectors are 1,024 lanes; a GPU starts
kernels, which take as long for few games as for all. There, loops compute all games, and the games
are the innermost axis in memory.

A GPU's program also stops after each round of a loop without a fixed number of rounds, until the
host has read whether to go on. There, searches make as many rounds as they can need.
"""

from typing import TypeVar

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, PyTree

Tree = TypeVar("Tree", bound=PyTree)


def is_dense() -> bool:
    """Whether the program that is being traced computes all games of a batch, needed or not."""
    return _platform() in ("tpu", "gpu")


def asks_host() -> bool:
    """Whether loops of the program that is being traced ask the host after each round."""
    return _platform() == "gpu"


def _platform() -> str:
    """The platform of the mesh around the program, whose devices need not be here.

    Without a mesh it is JAX's default.
    """
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    return jax.default_backend() if device is None else str(device.platform)


def games_innermost(batch: Tree) -> Tree:
    """The arrays `[games, n]` of a batch, in memory `[n, games]` where that is faster.

    They must not be results of a program as they are: the next program that JAX hands such an array
    reads it in the usual order.
    """
    if not is_dense():
        return batch

    def placed(leaf: Array) -> Array:
        # XLA names an order from the outermost axis to the innermost one.
        return with_layout_constraint(leaf, Layout((1, 0))) if leaf.ndim == 2 else leaf

    placed_batch: Tree = jax.tree.map(placed, batch)
    return placed_batch
