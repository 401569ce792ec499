import fcntl
import os
from pathlib import Path

import pytest

from .commands import done


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """The folder of a finished run, and what it printed.

    Trained once for all workers, and for all sessions that get a folder for it.
    """
    if shared := os.environ.get("HACKMATRIX_RL_TEST_RUNS"):
        place = Path(shared)
    elif "PYTEST_XDIST_WORKER" in os.environ:
        place = tmp_path_factory.getbasetemp().parent
    else:
        place = tmp_path_factory.mktemp("shared")
    # In the name, what `glob` takes for a pattern.
    folder, output = place / "trained" / "run[1]*?", place / "trained" / "output.txt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            result = done("train", "--preset", "debug", "--eval-episodes", "4", "--run-dir", folder)
            output.write_text(result.output)
    return folder, output.read_text()
