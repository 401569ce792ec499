"""The peak of a device: the most floating-point operations of matrix products in a second."""

import functools
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from hackmatrix_rl.system._accelerators import ACCELERATORS
from hackmatrix_rl.system._usage import usable_cores

_TERA = 1e12


def peak_flops(devices: Sequence[jax.Device], dtype: Any) -> float | None:
    """Floating-point operations of matrix products that devices of one kind do in a second at most.

    Of a CPU it is measured, once in a process, by a product in float32. `None` for a kind that
    `ACCELERATORS` lacks.

    Args:
        devices: all of them, also of other processes.
        dtype: what is multiplied.
    """
    first = devices[0]
    if first.platform == "cpu":
        here = tuple(each for each in devices if each.process_index == jax.process_index())
        return _measured(here) / len(here) * len(devices) if here else None
    if (found := ACCELERATORS.get(first.device_kind)) is None:
        return None
    peak = found.bits16 if np.dtype(dtype).itemsize <= 2 else found.f32
    return peak * _TERA * len(devices)


_LEAST, _SECONDS = 3, 0.2
"""The least number of measured products, and the time for more."""


@functools.cache
def _measured(devices: tuple[jax.Device, ...]) -> float:
    """The speed of a product on each of these devices at once; the best of several."""
    # Large enough for the cores of a device to be busy, and no larger.
    side = 512 if usable_cores() < 8 * len(devices) else 2048
    mesh = Mesh(np.array(devices), "device")
    each = PartitionSpec("device")
    multiply = jax.jit(
        jax.shard_map(lambda a: (a[0] @ a[0])[None], mesh=mesh, in_specs=each, out_specs=each)
    )
    square = jax.device_put(
        jnp.ones((len(devices), side, side), jnp.float32), jax.NamedSharding(mesh, each)
    )
    jax.block_until_ready(multiply(square))
    seconds: list[float] = []
    while len(seconds) < _LEAST or sum(seconds) < _SECONDS:
        began = time.perf_counter()
        jax.block_until_ready(multiply(square))
        seconds.append(time.perf_counter() - began)
    return 2 * side**3 * len(devices) / min(seconds)
