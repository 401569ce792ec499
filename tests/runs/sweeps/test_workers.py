"""Workers of a sweep as users start them: real processes, one of which is killed."""

import contextlib
import sys
from pathlib import Path

import pytest
from processes import finish, python, start, wait_for

from .test_sweep import BASE, trials, write

pytestmark = pytest.mark.processes

pytest.importorskip("optuna")

COMMAND = (sys.executable, "-m", "hackmatrix_rl", "sweep", "space.toml", "--trials", "3")


def held(process):
    """The folder of the trial that a worker trains now; `None` if it trains none."""
    said = f"process {process.pid} on "
    for lock in Path("sweep").glob("trial-*/lock"):
        with contextlib.suppress(FileNotFoundError):
            if lock.read_text().startswith(said):
                return lock.parent
    return None


def test_another_worker_goes_on_with_the_trial_of_one_that_was_killed(here, cache):
    # Long enough to be killed in, and a checkpoint now and then.
    write(base=BASE.replace("512", "6400") + "save_interval = 10\n")
    command = (*COMMAND, "--folder", "sweep", "--no-prune")
    one, other = (start(*command, JAX_COMPILATION_CACHE_DIR=cache) for _ in range(2))

    def both_train():
        folder = held(one)
        saved = folder is not None and (folder / "checkpoints" / "10" / "manifest.json").exists()
        return saved and held(other) is not None

    wait_for(both_train, one, other)
    left = held(one)
    one.kill()
    finish(one)
    number = int(left.name.removeprefix("trial-"))
    settings = trials("sweep")[number].params
    status, told = finish(other)
    assert status == 0, told
    (again,) = (line for line in told.splitlines() if line.endswith("from its last checkpoint"))
    assert again.startswith(f"trial {number}: ")
    found = trials("sweep")
    assert [each.state.name for each in found] == ["COMPLETE"] * 3
    assert found[number].params == settings
    log = (left / "log.txt").read_text()
    assert "resumed at update" in log
    assert "trained to the end at 6,400 steps; saved" in log


def test_the_lock_of_a_worker_that_died_while_it_wrote_is_released(here):
    Path("sweep").mkdir()
    ready = (
        "import os; from pathlib import Path; from hackmatrix_rl.runs.sweeps import _study; "
        "_study.GRACE_SECONDS = 3; storage = _study._storage(Path('sweep'), None); "
    )
    python("-c", ready + "storage._backend._lock.acquire(); os._exit(0)")
    assert list(Path("sweep").glob("*.lock"))
    create = "storage.create_new_study([_study.require_optuna().study.StudyDirection(1)])"
    assert python("-c", ready + f"print({create})").splitlines()[-1] == "0"
    assert not list(Path("sweep").glob("*.lock"))


def test_optuna_is_imported_for_sweeps_alone():
    code = (
        "import sys, hackmatrix_rl; from hackmatrix_rl.cli import _report, _sweep, _train; "
        "print('optuna' in sys.modules)"
    )
    assert python("-c", code).strip() == "False"
