"""Memory and utilization of the machine and its devices."""

import ctypes
import functools
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax

from hackmatrix_rl.system._devices import chosen_devices


def available_memory() -> tuple[int, str] | None:
    """Free bytes per device of this process, and the kind of memory; `None` if unknown.

    CPU devices share the memory of the machine or container equally.
    """
    devices = chosen_devices()
    if devices[0].platform == "cpu":
        free = _free_ram()
        return None if free is None else (free // len(devices), "free RAM")
    every = [device.memory_stats() or {} for device in devices]
    limited = [stats for stats in every if "bytes_limit" in stats]
    rooms = [stats["bytes_limit"] - stats.get("bytes_in_use", 0) for stats in limited]
    return (min(rooms), f"{devices[0].platform.upper()} memory") if rooms else None


def _free_ram(read: Callable[[Path], str] = Path.read_text) -> int | None:
    """The free memory of the machine or of the container, whichever is smaller.

    Where there is no /proc/meminfo, the total memory of the machine.
    """
    found: list[int] = []
    try:
        lines = read(Path("/proc/meminfo")).splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:  # not Linux
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    group = "/sys/fs/cgroup/memory"
    for limit, used in (
        (f"{group}.max", f"{group}.current"),
        (f"{group}/memory.limit_in_bytes", f"{group}/memory.usage_in_bytes"),
    ):
        try:
            most = read(Path(limit)).strip()
            if most != "max":
                found.append(int(most) - int(read(Path(used))))
        except OSError:  # no such control group
            continue
    return min(found, default=None)


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays, or `jax.ShapeDtypeStruct`, in a tree."""
    return sum(
        size_of(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")
    )


def size_of(shape: tuple[int, ...], dtype: Any) -> int:
    """Bytes of one array."""
    return math.prod(shape) * int(dtype.itemsize)


def format_bytes(size: int) -> str:
    """A size in words: `1.5 GiB`."""
    amount, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    digits = 0 if amount >= 10 or units[0] == "bytes" else 1
    return f"{amount:.{digits}f} {units[0]}"


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def gpu_utilization(platform: str, local: int | None) -> float | None:
    """The share of time, 0 to 1, that a GPU was busy in the driver's last sample period.

    `local` is its index in this process. `None` for other platforms, without the driver's library,
    and where the library has no figure (for example for a partition of a GPU).

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
    """The driver's library, initialized; `None` without one."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def _index(local: int | None) -> int | None:
    """The driver's index of the GPU with index `local` in this process; `None` if unknown."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if local is None or visible is None:
        return local
    names = visible.split(",")
    if local >= len(names) or not names[local].strip().isdigit():
        return None  # named by a UUID
    return int(names[local])


@runtime_checkable
class Device(Protocol):
    """The part of `jax.Device` that `Usage` reads."""

    platform: str
    local_hardware_id: int | None

    def memory_stats(self) -> Mapping[str, int] | None:
        """Bytes by name, if the backend has them."""


class Usage:
    """Memory and utilization at each call of `read`. Unavailable figures are left out."""

    def __init__(
        self,
        devices: Sequence[Device] | None = None,
        *,
        utilization: Callable[[str, int | None], float | None] = gpu_utilization,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.process_time,
    ) -> None:
        self._devices = chosen_devices() if devices is None else devices
        self._utilization = utilization
        self._clock, self._busy = clock, busy
        self._before = clock(), busy()

    def read(self) -> dict[str, float]:
        """The metrics, as docs/metrics.md defines them.

        Memory is the maximum over devices, and utilization the mean. CPU utilization covers the
        time since the last call.
        """
        found = {"process_memory_peak_bytes": float(process_peak_bytes())}
        now = self._clock(), self._busy()
        elapsed, used = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        if elapsed > 0:
            found["cpu_utilization"] = used / elapsed / usable_cores()
        stats = [device.memory_stats() or {} for device in self._devices]
        for name, key in (
            ("device_memory_bytes", "bytes_in_use"),
            ("device_memory_peak_bytes", "peak_bytes_in_use"),
        ):
            known = [float(each[key]) for each in stats if key in each]
            if known:
                found[name] = max(known)
        shares = [
            self._utilization(device.platform, device.local_hardware_id) for device in self._devices
        ]
        measured = [share for share in shares if share is not None]
        if measured:
            found["gpu_utilization"] = sum(measured) / len(measured)
        return found


def process_peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory() -> int:
    """Peak bytes on the first device, or of the process if the device has no figure."""
    stats = chosen_devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return int(stats["peak_bytes_in_use"])
    return process_peak_bytes()


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
