"""Utilization of an NVIDIA GPU, from the driver's own library."""

import ctypes
import functools
import os
from typing import Any


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def gpu_utilization(platform: str, local: int | None) -> float | None:
    """Busy share, 0 to 1, of this process's GPU number `local` in the driver's last sample period.

    It is `None` for other devices, without the driver's library, and if the library has no figure
    (for example for parts of a GPU).

    Source: NVIDIA, "NVML API reference", nvmlDeviceGetUtilizationRates.
    """
    if platform not in ("gpu", "cuda"):
        return None
    library, index = _library(), _index(local)
    if library is None or index is None:
        return None
    handle, rates = ctypes.c_void_p(), _Utilization()
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
        return None
    if library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)):
        return None
    return float(rates.gpu) / 100.0


@functools.cache
def _library() -> Any | None:
    """The driver's library, started; `None` without one."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def _index(local: int | None) -> int | None:
    """The driver's number of the GPU that is this process's `local`."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if local is None or visible is None:
        return local
    names = visible.split(",")
    if local >= len(names) or not names[local].strip().isdigit():
        return None  # named by a UUID
    return int(names[local])
