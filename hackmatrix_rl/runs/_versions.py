"""What a run was made by: written down at each of its starts."""

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

from hackmatrix_rl.errors import (
    DamagedFileError,
)
from hackmatrix_rl.system import (
    chosen_devices,
    read_json,
    set_aside,
    write_json,
)

PACKAGES = (
    "hackmatrix-rl",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "orbax-checkpoint",
    "jmp",
    "numpy",
    "pgx",
    "wandb",
    "tensorboardX",
    "libtpu",
    "jax-cuda13-plugin",
)


def versions() -> dict[str, str]:
    """Python and the packages that are installed, by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found


def describe_start(command: Sequence[str] | None = None) -> dict[str, Any]:
    """Everything about a start that its outcome may depend on.

    Args:
        command: as typed; by default this process's.
    """
    devices = chosen_devices()
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv if command is None else command),
        "versions": versions(),
        "commit": commit(Path(__file__).parents[1]),
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
    """The commit that a folder's code is at, `+` behind it where it was changed since.

    `None` where the folder is part of no checkout, or there is no git.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # A package that is installed inside of somebody's checkout is not that checkout's.
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def record_start(file: Path) -> list[str]:
    """Adds this start to a run's list of starts.

    Args:
        file: JSON, the run folder's `versions.json`; made at the first start.

    Returns:
        What differs from the start before, a line each; empty at the first. A list that
        cannot be read is set aside, which is a line too.
    """
    notes: list[str] = []
    try:
        starts = _starts_in(file)
    except DamagedFileError as error:
        starts = []
        notes.append(f"{file}: {error}; it is now {set_aside(file).name}, and begun anew")
    now = describe_start()
    write_json(file, {"starts": [*starts, now]})
    return notes + (_differences(starts[-1], now) if starts else [])


def _starts_in(file: Path) -> list[dict[str, Any]]:
    """The starts that were written down before.

    Raises:
        DamagedFileError: if they cannot be read.
    """
    content = read_json(file)
    if content is None:
        return []
    starts = content.get("starts")
    if not isinstance(starts, list) or not all(_is_start(start) for start in starts):
        raise DamagedFileError("is no list of starts")
    return starts


def _is_start(start: Any) -> bool:
    parts = ("versions", "devices", "environment")
    return (
        isinstance(start, dict)
        and all(isinstance(start.get(part), dict) for part in parts)
        and "commit" in start
    )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    lines = []
    for part in ("versions", "devices", "environment"):
        for name in sorted({*before[part], *now[part]}):
            was, is_now = before[part].get(name, "none"), now[part].get(name, "none")
            if was != is_now:
                lines.append(f"since the start before, {name} went from {was} to {is_now}")
    if before["commit"] != now["commit"]:
        lines.append(
            f"since the start before, the code went from {before['commit']} to {now['commit']}"
        )
    return lines
