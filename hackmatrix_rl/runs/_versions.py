"""Software and hardware of a run, recorded at each start."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl.system import chosen_devices, read_json, write_json
from hackmatrix_rl.system.errors import DamagedFileError

PACKAGES = (
    *("hackmatrix-rl", "jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "jmp", "numpy"),
    *("pgx", "wandb", "tensorboardX", "trackio", "libtpu", "jax-cuda13-plugin"),
)


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages, by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found


def describe_start(command: Sequence[str] | None = None) -> dict[str, Any]:
    """The software, hardware and variables of a start that can affect its results."""
    devices = chosen_devices()
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv if command is None else command),
        "versions": versions(),
        # An installed package has a release instead of a commit.
        "commit": commit(Path(__file__).parents[1]) or f"release {version('hackmatrix-rl')}",
        "system": platform.platform(),
        "machine": platform.machine(),
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "driver": getattr(devices[0].client, "platform_version", ""),
        },
        "processes": jax.process_count(),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("XLA_", "JAX_", "LIBTPU_INIT_ARGS", "NCCL_", "CUDA_VISIBLE"))
        },
    }


def commit(folder: Path) -> str | None:
    """The commit of a folder's code, with a `+` if files have changed; `None` without git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # A package that is installed inside another checkout does not belong to it.
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def record_start(file: Path) -> list[str]:
    """Adds this start to a run's list of starts; returns lines about changes since the last."""
    notes: list[str] = []
    try:
        starts = _starts_in(file)
    except DamagedFileError as error:
        starts = []
        notes.append(f"{file}: {error}; a new list begins")
    now = describe_start()
    write_json(file, {"starts": [*starts, now]})
    return notes + (_differences(starts[-1], now) if starts else [])


def _starts_in(file: Path) -> list[dict[str, Any]]:
    content = read_json(file)
    if content is None:
        return []
    starts = content.get("starts")
    if not isinstance(starts, list) or not all(_is_start(start) for start in starts):
        raise DamagedFileError("is not a list of starts")
    return starts


def _is_start(start: Any) -> bool:
    parts = ("versions", "devices", "environment")
    return (
        isinstance(start, dict)
        and all(isinstance(start.get(part), dict) for part in parts)
        and "commit" in start
    )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    parts = [(before[part], now[part]) for part in ("versions", "devices", "environment")]
    parts.append(({"the code": before["commit"]}, {"the code": now["commit"]}))
    return [
        f"since the last start, {name} went from {was.get(name, 'none')} to {new.get(name, 'none')}"
        for was, new in parts
        for name in sorted({*was, *new})
        if was.get(name, "none") != new.get(name, "none")
    ]
