"""Small files that this package stores per user, outside of runs."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hackmatrix_rl.system._files import read_json, typed_path, write_json
from hackmatrix_rl.system.errors import DamagedFileError

STATE = "HACKMATRIX_RL_STATE_DIR"
"""The environment variable for another state folder. If it is empty, nothing is stored."""

_MOST_BYTES = 2**16
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def state_folder() -> Path | None:
    """The path of the user's state folder, which need not exist; `None` without one."""
    named = os.environ.get(STATE)
    if named is not None:
        return Path(typed_path(named, lasting=True)) if named else None
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # the XDG specification ignores a relative path
        home = os.path.expanduser("~/.local/state")
    return Path(home) / "hackmatrix_rl" if os.path.isabs(home) else None


def read_state(name: str) -> dict[str, Any] | None:
    """The content of a file in the state folder.

    `None` if it is missing or damaged, or if somebody else could have written it.
    """
    folder = state_folder()
    if folder is None or not _is_private(folder) or not _is_private(folder / name):
        return None
    try:
        return read_json(folder / name, _MOST_BYTES)
    except DamagedFileError:
        return None


def write_state(name: str, content: Mapping[str, Any]) -> bool:
    """Writes a file in the state folder that only this user can read. Returns whether it did."""
    folder = state_folder()
    if folder is None:
        return False
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_private(folder):
        return False
    write_json(folder / name, content, mode=0o600)
    return True


def _is_private(path: Path) -> bool:
    """Whether a file or folder belongs to this user and is not writable by others."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS
