"""What several tests start from, made by the first that needs it."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills.

    Once for all workers, and for all sessions that get a folder for it. Tests do not write into it.
    """
    if shared := os.environ.get("HACKMATRIX_RL_TEST_RUNS"):
        place = Path(shared)
    elif "PYTEST_XDIST_WORKER" in os.environ:
        place = factory.getbasetemp().parent
    else:
        place = factory.mktemp("shared")
    folder, made = place / name, place / f"{name}.made"
    folder.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make(folder)
            made.touch()
    return folder
