"""Real processes that tests start, and the ends of the runs that they leave."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hackmatrix_rl.runs._verify_resume import first_difference
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays

CARTPOLE = (sys.executable, str(Path(__file__).parent / "runs" / "cartpole_command.py"), "train")
TIMEOUT = 240


def start(*command, cwd=None, **environment):
    """A process whose output and errors are read together when it has ended."""
    return subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )


def python(*arguments, cwd=None, as_users=False, **environment):
    """What a Python process printed that went well; `as_users`: without what tests tell JAX."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=(own | {"JAX_PLATFORMS": "cpu"} if as_users else os.environ) | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def stand_ins(folder, **scripts):
    """Programs of a shell script each, and the PATH on which they come first."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, script in scripts.items():
        program = programs / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}


def wait_for(condition, *processes):
    """Waits for something to become true, and sees that the processes go on until then."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        for process in processes:
            assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_update(checkpoints, update, process):
    """Waits for the checkpoint of an update to be whole."""
    wait_for((checkpoints / str(update) / "manifest.json").exists, process)


def finish(process):
    """Exit status, and what was printed."""
    output, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, output


def copy_stopped_after(run, update, copy):
    """A copy of a run, as if it had been stopped after some update."""
    shutil.copytree(run, copy)
    for folder in (copy / "checkpoints").iterdir():
        if int(folder.name) > update:
            shutil.rmtree(folder)
    return copy


def assert_same_end(one, other):
    """Two runs ended in the same bits."""
    ends = [read_arrays(find_checkpoint(run), "training") for run in (one, other)]
    assert first_difference(*ends) is None
