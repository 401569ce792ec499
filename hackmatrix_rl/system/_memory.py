"""Available memory, and the memory of arrays."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl.system._devices import chosen_devices


def available_memory() -> tuple[int, str] | None:
    """Free bytes for each device of this process, and the kind of memory in words.

    Devices of a CPU share the memory of the machine, or of the container. `None` if unknown.
    """
    devices = chosen_devices()
    if devices[0].platform == "cpu":
        free = _free_ram()
        return None if free is None else (free // len(devices), "free RAM")
    rooms = [stats["bytes_limit"] - stats.get("bytes_in_use", 0) for stats in _limits(devices)]
    return (min(rooms), f"{devices[0].platform.upper()} memory") if rooms else None


def _limits(devices: list[jax.Device]) -> list[Mapping[str, int]]:
    every = [device.memory_stats() or {} for device in devices]
    return [stats for stats in every if "bytes_limit" in stats]


def _free_ram(read: Callable[[Path], str] = Path.read_text) -> int | None:
    """The free memory of the machine or of the container, whichever is smaller."""
    found: list[int] = []
    try:
        lines = read(Path("/proc/meminfo")).splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:  # not Linux
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found.append(pages)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            most = read(Path(limit)).strip()
            if most != "max":
                found.append(int(most) - int(read(Path(used))))
        except OSError:  # no such control group
            continue
    return min(found, default=None)


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays, or shapes of arrays, in a tree."""
    return sum(
        size_of(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")
    )


def size_of(shape: tuple[int, ...], dtype: Any) -> int:
    """Bytes of one array."""
    return math.prod(shape) * int(dtype.itemsize)


def format_bytes(size: int) -> str:
    """`1.5 GiB`."""
    amount, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    digits = 0 if amount >= 10 or units[0] == "bytes" else 1
    return f"{amount:.{digits}f} {units[0]}"
