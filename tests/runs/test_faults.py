"""Real processes that are killed, told to stop, and robbed of their disk."""

import os
import random
import shlex
import signal
import subprocess
import time

import pytest
from processes import (
    CARTPOLE,
    TIMEOUT,
    assert_same_end,
    finish,
    stand_ins,
    start,
    wait_for,
    wait_for_update,
)

from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.sinks import read_json_lines

from .test_restart_scripts import AGAIN, FIRST, script

pytestmark = pytest.mark.processes

UPDATES_A_KILL = 40
"""More than a run does from one kill to the next: it must not be over before the last one."""


def settings(updates: int) -> tuple[str, ...]:
    return (
        *("--preset", "debug", "--total-timesteps", str(updates * 256)),
        *("--updates-per-dispatch", "1", "--eval-episodes", "0", "--save-interval", "2"),
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled programs, shared by the processes."""
    return tmp_path_factory.mktemp("cache")


def spawn(cache, *arguments, before=(), cwd=None):
    return start(*(*before, *CARTPOLE, *arguments), cwd=cwd, JAX_COMPILATION_CACHE_DIR=str(cache))


@pytest.fixture(scope="module")
def updates(request):
    """Of the runs that are compared."""
    return UPDATES_A_KILL * request.config.getoption("--kills")


@pytest.fixture(scope="module")
def straight(cache, tmp_path_factory, updates):
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    status, output = finish(spawn(cache, *settings(updates), "--run-dir", folder))
    assert status == 0, output
    return folder


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_where_it_would_have(straight, cache, tmp_path, updates):
    kills = updates // UPDATES_A_KILL
    moments = random.Random(os.environ.get("HACKMATRIX_KILL_SEED", "0"))
    run = tmp_path / "run"
    process = spawn(cache, *settings(updates), "--run-dir", run)
    wait_for_update(run / "checkpoints", 2, process)
    reached = 2
    for _ in range(kills):
        # Half of the time goes into saving: many of the kills meet a save halfway.
        time.sleep(moments.uniform(0.0, 0.4))
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
        update = read_metadata(find_checkpoint(run, report=print))["update"]
        assert update >= reached, "a kill took back what had been saved"
        reached = update
        process = spawn(cache, "--resume-run", run)
        wait_for_update(run / "checkpoints", update + 2, process)
    status, output = finish(process)
    assert status == 0, output
    assert_same_end(straight, run)
    rows = [row["updates"] for row in read_json_lines(run / "metrics.jsonl")]
    assert rows == list(range(1, updates + 1)), "each update once, in order"


@pytest.mark.slow
def test_the_loop_of_the_page_goes_on_where_the_machine_goes_before_the_first_checkpoint(
    cache, tmp_path
):
    begin = shlex.join(CARTPOLE[:-1]) + ' "$@"'
    small = shlex.join(settings(4))
    path = stand_ins(
        tmp_path,
        hackmatrix_rl='echo "$*" >> calls\ncase "$*" in\n'
        f"*--run-dir*) HACKMATRIX_TEST_KILLED=1 exec {begin} {small} ;;\n"
        f"*) exec {begin} ;;\nesac",
        sleep="",
    )
    ended = subprocess.run(
        ["sh", "-c", script("checkpoints.md", "while true")],
        cwd=tmp_path,
        env=os.environ | path | {"JAX_COMPILATION_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [FIRST, AGAIN]
    assert "has no checkpoint yet; the run starts over" in ended.stdout
    assert read_metadata(find_checkpoint(tmp_path / "runs" / "long"))["update"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_with_its_exit_code(straight, cache, tmp_path, updates, number):
    run = tmp_path / "run"
    process = spawn(cache, *settings(updates), "--run-dir", run)
    wait_for_update(run / "checkpoints", 4, process)
    process.send_signal(number)
    status, output = finish(process)
    assert status == 128 + number
    assert "; saved" in output
    assert f"hackmatrix-rl train --resume-run {run}" in output
    rows = read_json_lines(run / "metrics.jsonl")
    assert read_metadata(find_checkpoint(run))["update"] == rows[-1]["updates"] < updates
    if number == signal.SIGTERM:
        status, output = finish(spawn(cache, "--resume-run", run))
        assert status == 0, output
        assert_same_end(straight, run)


@pytest.mark.slow
def test_a_second_signal_ends_at_once(cache, tmp_path):
    run = tmp_path / "run"
    endless = ("--total-timesteps", str(10**9), "--updates-per-dispatch", str(10**6))
    process = spawn(cache, "--preset", "debug", *endless, "--run-dir", run)
    log = run / "log.txt"
    wait_for(lambda: log.exists() and "compiled in" in log.read_text(), process)
    time.sleep(0.5)  # now in one call of the program that takes an hour
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    status, output = finish(process)
    assert status == 128 + signal.SIGTERM
    assert "Ended at once." in output
    assert time.monotonic() - began < 30


# No file may become larger than this: to a program that writes one, the disk is full.
SMALL_FILES = ("bash", "-c", 'ulimit -f 3 && exec "$@"', "bash")


@pytest.mark.slow
def test_a_full_disk_is_told_and_training_goes_on(cache, tmp_path):
    run = tmp_path / "run"
    status, output = finish(spawn(cache, *settings(16), "--run-dir", run, before=SMALL_FILES))
    assert status == 4, output
    assert "COULD NOT SAVE update 2" in output
    assert "JsonLines cannot write: [Errno 27] File too large. Training continues." in output
    assert "100%" in output
    assert "Traceback" not in output, "one line for each failure"


@pytest.mark.slow
def test_neither_another_run_nor_a_resume_writes_where_a_live_run_does(cache, tmp_path):
    far = tmp_path / "far"
    run = spawn(
        cache, *settings(10**6), "--run-dir", "runs/one", "--checkpoint-dir", far, cwd=tmp_path
    )
    try:
        wait_for_update(far, 4, run)
        (tmp_path / "elsewhere").mkdir()
        starts = {
            "another": spawn(
                cache, *settings(8), "--run-dir", "two", "--checkpoint-dir", far, cwd=tmp_path
            ),
            "same": spawn(cache, *settings(8), "--run-dir", "runs/one", cwd=tmp_path),
            "resume": spawn(
                cache, *("--resume-run", "one", "--checkpoint-dir", far), cwd=tmp_path / "elsewhere"
            ),
        }
        for name, process in starts.items():
            status, output = finish(process)
            assert status == 2, output
            assert f"is still being written by process {run.pid} on" in output, name
        assert {path.name for path in tmp_path.iterdir()} == {"runs", "far", "elsewhere"}
        assert not list((tmp_path / "elsewhere").iterdir())
        run.send_signal(signal.SIGTERM)
        status, output = finish(run)
    finally:
        run.kill()
    assert status == 128 + signal.SIGTERM
    assert "cannot" not in output
