"""What differs between devices in how a batch of games is computed. The results are the same bits.

A CPU computes only the games that need something. A TPU takes thousands of cycles to gather a few
games, and its vectors are 1,024 lanes: its loops compute all games, which are the innermost axis in
memory. A GPU starts kernels, which take as long for few games as for thousands, so it gathers only
where a buffer has thousands.

On a GPU, a round of a loop is what takes time: at least one more kernel, and where loops are not
part of a graph of kernels, a wait until the host has read the condition. There, loops make as many
rounds as they can need, or several at once.
"""

from typing import TypeVar

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, PyTree

Tree = TypeVar("Tree", bound=PyTree)

_LEAST_GPU_BUFFER = 2048
"""Games for which gathering them takes no longer than computing all, measured on an H100."""


def platform() -> str:
    """The platform that the program is being traced for: `"cpu"`, `"gpu"` or `"tpu"`.

    With a mesh around the program, the mesh's platform, whose devices need not be here; without a
    mesh, JAX's default.
    """
    return _platform()


def is_dense() -> bool:
    """Whether the program that is being traced computes few games no faster than all of a batch."""
    return _platform() in ("tpu", "gpu")


def avoids_rounds() -> bool:
    """Whether rounds of a loop are slow on the device that the program is being traced for."""
    return _platform() == "gpu"


def _platform() -> str:
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    if device is None:
        return jax.default_backend()
    # From the kind ("cpu", "TPU v4", "NVIDIA H100"): older JAX's abstract devices name no platform.
    kind = str(device.device_kind).lower()
    return next((name for name in ("cpu", "tpu") if kind.startswith(name)), "gpu")


def buffer_width(size: int, share: int) -> int:
    """The width of a buffer for a share of the games; `size` where all games are computed."""
    width = max(1, size // share)
    least = {"tpu": size, "gpu": _LEAST_GPU_BUFFER}.get(_platform(), 1)
    return width if width >= least else size


def games_innermost(batch: Tree) -> Tree:
    """The arrays `[games, n]` of a batch, in memory `[n, games]` where that is faster.

    They must not be results of a program as they are: the next program that JAX hands such an array
    reads it in the usual order.
    """
    if _platform() != "tpu":
        return batch

    def placed(leaf: Array) -> Array:
        # XLA names an order from the outermost axis to the innermost one.
        return with_layout_constraint(leaf, Layout((1, 0))) if leaf.ndim == 2 else leaf

    placed_batch: Tree = jax.tree.map(placed, batch)
    return placed_batch
