"""The use of the machine by a run, as metrics."""

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from hackmatrix_rl.system._devices import chosen_devices
from hackmatrix_rl.system._nvml import gpu_utilization


@runtime_checkable
class Device(Protocol):
    """The part of `jax.Device` that `Usage` reads."""

    platform: str
    local_hardware_id: int | None

    def memory_stats(self) -> Mapping[str, int] | None:
        """Bytes by name, if the backend has them."""


class Usage:
    """Memory and utilization at each call of `read`, without unavailable figures."""

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

        Memory is that of the fullest device. Utilization is the mean over devices; that of the
        CPU covers the time since the last call.
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
    """Peak memory of this process in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory() -> int:
    """Peak bytes of the first device, or of the process if the device has no figure."""
    stats = chosen_devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return int(stats["peak_bytes_in_use"])
    return process_peak_bytes()


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
