"""The peak of a device: the most floating-point operations of matrix products in a second."""

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from hackmatrix_rl.system._usage import usable_cores

_TERA = 1e12

# Dense, by what JAX calls the device, in 10^12 a second: of float32, and of 16 bits. JAX multiplies
# float32 as TF32 on a GPU and in one pass of bfloat16 on a TPU, unless
# `jax_default_matmul_precision` says otherwise. NVIDIA's data sheets give twice as much where they
# count with sparsity. A part of a GPU (MIG) has another name.
PEAKS: Mapping[str, tuple[float, float]] = {
    # NVIDIA, "H100 Tensor Core GPU Architecture"; of NVL, H200 and GH200 their data sheets.
    "NVIDIA H100 80GB HBM3": (494.7, 989.4),
    "NVIDIA H100 PCIe": (378.0, 756.0),
    "NVIDIA H100 NVL": (417.5, 835.5),
    "NVIDIA H200": (494.7, 989.4),
    "NVIDIA H200 NVL": (417.5, 835.5),
    "NVIDIA GH200 480GB": (494.7, 989.4),
    # NVIDIA, "A100 Tensor Core GPU" (data sheet).
    "NVIDIA A100-SXM4-40GB": (156.0, 312.0),
    "NVIDIA A100-SXM4-80GB": (156.0, 312.0),
    "NVIDIA A100-PCIE-40GB": (156.0, 312.0),
    "NVIDIA A100 80GB PCIe": (156.0, 312.0),
    # NVIDIA, "L4 Tensor Core GPU" (data sheet).
    "NVIDIA L4": (60.0, 121.0),
    # NVIDIA, "Ada GPU Architecture", appendix A: sums in float32.
    "NVIDIA GeForce RTX 4090": (82.6, 165.2),
    # Google Cloud, "TPU versions", a chip each; of tpu7x (2,307 a chip), JAX's device is half of
    # one. The names are from JAX's `chip_version_from_device_kind`.
    "TPU v4": (275.0, 275.0),
    "TPU v5 lite": (197.0, 197.0),
    "TPU v5e": (197.0, 197.0),
    "TPU v5": (459.0, 459.0),
    "TPU v5p": (459.0, 459.0),
    "TPU v6 lite": (918.0, 918.0),
    "TPU v6e": (918.0, 918.0),
    "TPU7x": (1153.5, 1153.5),
}
"""The peak of each known device."""


def peak_flops(devices: Sequence[jax.Device], dtype: Any) -> float | None:
    """Floating-point operations of matrix products that devices of one kind do in a second at most.

    Of a CPU it is measured, once in a process, by a product in float32. `None` for a kind that
    `PEAKS` lacks.

    Args:
        devices: all of them, also of other processes.
        dtype: what is multiplied.
    """
    first = devices[0]
    if first.platform == "cpu":
        here = tuple(each for each in devices if each.process_index == jax.process_index())
        return _measured(here) / len(here) * len(devices) if here else None
    if (found := PEAKS.get(first.device_kind)) is None:
        return None
    return found[np.dtype(dtype).itemsize <= 2] * _TERA * len(devices)


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
