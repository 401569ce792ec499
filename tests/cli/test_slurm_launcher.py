"""The script for SLURM with real trainings, and a stand-in for `srun` that starts two processes."""

import os
import shlex
import signal
import socket
from types import SimpleNamespace

import jax
import pytest
from processes import CARTPOLE, finish, stand_ins, start, wait_for

from hackmatrix_rl.runs.checkpoints import checkpoints_in, find_checkpoint, read_metadata
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import Target

from .commands import done

pytestmark = [pytest.mark.processes, pytest.mark.slow]

# Two tasks on this machine, as SLURM describes them to them. The status is the largest, as srun's.
SRUN = """shift  # --cpu-bind
export SLURM_STEP_NODELIST=127.0.0.1 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0
SLURM_PROCID=0 "$@" & first=$!
SLURM_PROCID=1 "$@" & echo $! > second
wait $! ; status=$?
wait $first; first=$?
[ $first -lt $status ] || status=$first
exit $status"""


def free_job():
    """The number of a job whose port, which JAX makes of the number, is free."""
    for job in range(os.getpid() % 2**12, 2**14):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", job % 2**12 + 2**16 - 2**12))
            except OSError:
                continue
            return str(job)
    raise AssertionError("no port is free")


def test_a_job_that_loses_a_process_is_queued_again_and_resumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "hackmatrix_rl.system.target", lambda name: Target(name, tuple(jax.devices()[:2]), None)
    )
    told = SimpleNamespace(lines=list)
    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", lambda *_, **__: told)
    settings = ("--updates-per-dispatch", 1, "--eval-episodes", 0, "--total-timesteps", 2**12)
    asked = ("--preset", "debug", "--mesh", "auto", *settings, "--dry-run", "--target", "2xcpu")
    done("train", *asked, "--launcher", "go.sbatch")
    program, *script = CARTPOLE[:-1]
    path = stand_ins(
        tmp_path,
        srun=SRUN,
        scontrol='echo "$*" > queued',
        hackmatrix_rl=f'exec {shlex.join([program, *script])} "$@"',
    )
    job = free_job()
    # Of a fast clock: it saves often.
    where = path | {"SLURM_JOB_ID": job, "HACKMATRIX_TEST_CLOCK_RATE": "1e4", "XLA_FLAGS": ""}
    run = tmp_path / "runs" / job
    training = start("bash", "go.sbatch", cwd=tmp_path, **where)
    wait_for(lambda: len(checkpoints_in(run / "checkpoints")) > 1, training)
    os.kill(int((tmp_path / "second").read_text()), signal.SIGKILL)
    status, output = finish(training)
    assert status in (5, 134, 137), output
    assert (tmp_path / "queued").read_text() == f"requeue {job}\n", output
    reached = int(find_checkpoint(run).name)
    status, output = finish(start("bash", "go.sbatch", cwd=tmp_path, **where))
    assert status == 0, output
    assert f"update {reached}" in output
    last = read_metadata(find_checkpoint(run))
    rows = [int(row["updates"]) for row in read_json_lines(run / "metrics.jsonl")]
    assert rows == list(range(1, int(last["update"]) + 1))
    assert reached < rows[-1]
