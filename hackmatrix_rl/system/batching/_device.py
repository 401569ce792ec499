"""How each kind of device computes a batch of games. The results are bitwise equal.

- A CPU gathers the games that need a computation, and computes only these.
- A TPU takes thousands of cycles to gather a few games, and its vectors have 1,024 lanes. Its loops
  compute all games, with the batch as the innermost axis in memory.
- A GPU kernel takes as long for a few games as for thousands. It gathers only into buffers of
  thousands. Rounds of a loop are slow: each starts at least one kernel, and outside of a command
  buffer the host reads the condition. So loops have a fixed number of rounds, or do several steps
  per round.
"""

from typing import TypeVar

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, PyTree

Tree = TypeVar("Tree", bound=PyTree)

_LEAST_GPU_BUFFER = 2048
"""The smallest buffer that is worth gathering into, measured on an H100."""


def platform() -> str:
    """The platform that the program is being traced for: `"cpu"`, `"gpu"` or `"tpu"`.

    It is the platform of the current mesh, whose devices need not be on this machine; without a
    mesh, JAX's default.
    """
    return _platform()


def _platform() -> str:  # tests replace it, also for modules that imported `platform`
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    if device is None:
        return jax.default_backend()
    # The kind is "cpu", "TPU v4" or "NVIDIA H100". Abstract devices of older JAX have no platform.
    kind = str(device.device_kind).lower()
    return next((name for name in ("cpu", "tpu") if kind.startswith(name)), "gpu")


def is_dense() -> bool:
    """Whether a few games of a batch take as long as all, on the device traced for."""
    return _platform() in ("tpu", "gpu")


def avoids_rounds() -> bool:
    """Whether rounds of a loop are slow, on the device traced for."""
    return _platform() == "gpu"


def buffer_width(size: int, share: int) -> int:
    """The width of a buffer for 1/`share` of the games; `size` if all games are computed."""
    width = max(1, size // share)
    least = {"tpu": size, "gpu": _LEAST_GPU_BUFFER}.get(_platform(), 1)
    return width if width >= least else size


def games_innermost(batch: Tree) -> Tree:
    """The arrays `[games, n]` of a batch, with the memory layout `[n, games]` where that is faster.

    Do not return them from a program: the next one would read them in the default layout.
    """
    if _platform() != "tpu":
        return batch

    def placed(leaf: Array) -> Array:
        # A layout lists axes from the outermost to the innermost.
        return with_layout_constraint(leaf, Layout((1, 0))) if leaf.ndim == 2 else leaf

    placed_batch: Tree = jax.tree.map(placed, batch)
    return placed_batch
