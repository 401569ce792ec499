"""The groups in which trackers draw metrics."""

from hackmatrix_rl.runs.sinks._sink import Row

_AXES = ("env_steps", "updates")
_TIME = (
    *("seconds", "steps_per_second", "mfu", "cpu_utilization", "gpu_utilization"),
    *("process_memory_peak_bytes", "device_memory_bytes", "device_memory_peak_bytes"),
)


def grouped(row: Row) -> dict[str, float]:
    """A row with `train/` or `time/` before each name that has no group and is not an axis."""
    return {_grouped(name): value for name, value in row.items()}


def _grouped(name: str) -> str:
    if "/" in name or name in _AXES:
        return name
    return f"time/{name}" if name in _TIME else f"train/{name}"
