"""The table of known accelerators: peak, memory and multiprocessors of each kind of device."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

_GB, _GIB = 10**9, 2**30


class Accelerator(NamedTuple):
    """A kind of device.

    Attributes:
        f32: peak of dense matrix products in float32, in 10^12 operations a second.
        bits16: the same in 16 bits.
        memory: bytes of memory.
        multiprocessors: number of streaming multiprocessors of a GPU; `None` for a TPU.
    """

    f32: float
    bits16: float
    memory: int
    multiprocessors: int | None = None


# By what JAX calls the device. JAX multiplies float32 as TF32 on a GPU and in one pass of bfloat16
# on a TPU, unless `jax_default_matmul_precision` says otherwise. NVIDIA's data sheets give twice
# the peak where they count with sparsity. A part of a GPU (MIG) has another name.
ACCELERATORS: Mapping[str, Accelerator] = {
    # NVIDIA, "H100 Tensor Core GPU Architecture"; of NVL, H200 and GH200 their data sheets. Bytes
    # of H100 and H200 as XLA's `target_config/specs` has them, of others as on their data sheets.
    "NVIDIA H100 80GB HBM3": Accelerator(494.7, 989.4, 84_978_434_048, 132),
    "NVIDIA H100 PCIe": Accelerator(378.0, 756.0, 80 * _GB, 114),
    "NVIDIA H100 NVL": Accelerator(417.5, 835.5, 94 * _GB, 132),
    "NVIDIA H200": Accelerator(494.7, 989.4, 151_397_597_184, 132),
    "NVIDIA H200 NVL": Accelerator(417.5, 835.5, 141 * _GB, 132),
    "NVIDIA GH200 480GB": Accelerator(494.7, 989.4, 96 * _GB, 132),
    # NVIDIA, "A100 Tensor Core GPU" (data sheet); bytes of SXM4 with 80 GB as XLA has them.
    "NVIDIA A100-SXM4-40GB": Accelerator(156.0, 312.0, 40 * _GB, 108),
    "NVIDIA A100-SXM4-80GB": Accelerator(156.0, 312.0, 85_100_068_864, 108),
    "NVIDIA A100-PCIE-40GB": Accelerator(156.0, 312.0, 40 * _GB, 108),
    "NVIDIA A100 80GB PCIe": Accelerator(156.0, 312.0, 80 * _GB, 108),
    # NVIDIA, "L4 Tensor Core GPU" (data sheet); 7,424 CUDA cores, 128 a multiprocessor.
    "NVIDIA L4": Accelerator(60.0, 121.0, 24 * _GB, 58),
    # NVIDIA, "Ada GPU Architecture", appendix A: sums in float32.
    "NVIDIA GeForce RTX 4090": Accelerator(82.6, 165.2, 24 * _GB, 128),
    # Google Cloud, "TPU versions", a chip each; of tpu7x (2,307 and 192 GiB a chip), JAX's device
    # is half of one. The names are from JAX's `chip_version_from_device_kind`.
    "TPU v4": Accelerator(275.0, 275.0, 32 * _GIB),
    "TPU v5 lite": Accelerator(197.0, 197.0, 16 * _GIB),
    "TPU v5e": Accelerator(197.0, 197.0, 16 * _GIB),
    "TPU v5": Accelerator(459.0, 459.0, 95 * _GIB),
    "TPU v5p": Accelerator(459.0, 459.0, 95 * _GIB),
    "TPU v6 lite": Accelerator(918.0, 918.0, 32 * _GIB),
    "TPU v6e": Accelerator(918.0, 918.0, 32 * _GIB),
    "TPU7x": Accelerator(1153.5, 1153.5, 96 * _GIB),
}
"""Each known kind of device."""


def memory_limit(device: jax.Device) -> int | None:
    """Bytes that programs may use on a device; `None` if unknown.

    The device may belong to another process, or be a description.
    """
    try:
        stats = device.memory_stats()
    except jax.errors.JaxRuntimeError:
        known = ACCELERATORS.get(device.device_kind)
        return None if known is None else known.memory
    return None if stats is None else stats.get("bytes_limit")


def multiprocessors(device: jax.Device) -> int | None:
    """Number of multiprocessors of a GPU; `None` if unknown.

    The GPU says it itself, so that a part of one (MIG) has its own number.
    """
    count: Any = getattr(device, "core_count", None)
    if isinstance(count, int) and count > 0:
        return count
    known = ACCELERATORS.get(device.device_kind)
    return None if known is None else known.multiprocessors
