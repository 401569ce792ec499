"""Several processes as one run: real ones, over the loopback interface."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from processes import CARTPOLE, TIMEOUT, assert_same_end, finish, start, wait_for
from training.states import assert_close

from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays, read_metadata
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import Requests, agree, connect
from hackmatrix_rl.system._hosts import launched_together
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training.sharding import mesh

from .save_together import trainer_of

pytestmark = pytest.mark.processes

STUBS = Path(__file__).with_name("stubs")
SETTINGS = (
    *("--preset", "debug", "--updates-per-dispatch", "1", "--eval-episodes", "0"),
    *("--mesh", "auto"),
)
ENDLESS = ("--total-timesteps", str(10**9))


def cpu_devices(count):
    return f"--xla_force_host_platform_device_count={count}"


def updates_of(folder):
    return [int(row["updates"]) for row in read_json_lines(folder / "metrics.jsonl")]


def shared_out(games, processes):
    """Which games each of some processes is to have."""
    return np.arange(games).reshape(processes, -1).tolist()


def games_of(told, processes):
    """The games on the devices of each process."""
    files = (told / f"games-{process}-of-{processes}.json" for process in range(processes))
    return [json.loads(file.read_text()) for file in files]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


class Run:
    """Some processes of one run, two by default; with `resumes` they continue it."""

    def __init__(
        self,
        cache,
        folder,
        *arguments,
        devices=1,
        differing=((), ()),
        environments=({}, {}),
        resumes=False,
    ):
        self.folder = folder
        number = len(environments)
        named = ("--resume-run", folder) if resumes else (*SETTINGS, "--run-dir", folder)
        command = [*CARTPOLE, *named, *arguments]
        if number > 1:
            command += ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", number]
            command += ["--connect-timeout", str(TIMEOUT), "--process-id"]
        given = {"JAX_COMPILATION_CACHE_DIR": str(cache), "XLA_FLAGS": cpu_devices(devices)}
        self.processes = [
            start(
                *(command if number == 1 else (*command, process)),
                *(differing[process] if process < len(differing) else ()),
                **given,
                **environment,
            )
            for process, environment in enumerate(environments)
        ]

    def wait_for_updates(self, count):
        metrics = self.folder / "metrics.jsonl"
        wait_for(
            lambda: metrics.exists() and len(read_json_lines(metrics)) >= count, *self.processes
        )

    def finish(self):
        """Exit statuses and outputs."""
        return zip(*map(finish, self.processes), strict=True)


TOTAL = ("--total-timesteps", "1024")


@pytest.fixture(scope="module")
def two(cache, tmp_path_factory):
    """The folder of a run of two processes, and what each printed.

    To process 1, whose clock is fast, a save is due at every update.
    """
    fast = {"HACKMATRIX_TEST_CLOCK_RATE": "1e6"}
    folder = tmp_path_factory.mktemp("together") / "two"
    run = Run(cache, folder, *TOTAL, environments=({}, fast))
    statuses, outputs = run.finish()
    assert statuses == (0, 0), outputs
    return run.folder, outputs


@pytest.mark.slow
def test_two_processes_train_what_one_does(two, tmp_path):
    folder, outputs = two
    is_single_process = subprocess.run(
        [*CARTPOLE, *SETTINGS, *TOTAL, "--run-dir", str(tmp_path / "one")],
        env={**os.environ, "XLA_FLAGS": cpu_devices(2)},
        check=True,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert b"100%" in is_single_process.stdout
    together, alone = (
        read_arrays(find_checkpoint(run), "training").arrays for run in (folder, tmp_path / "one")
    )
    assert together.keys() == alone.keys()
    for name, array in alone.items():
        np.testing.assert_allclose(together[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    # Process 0 alone writes metrics; each has its own log.
    assert len(read_json_lines(folder / "metrics.jsonl")) == 4
    for log in ("log.txt", "log-process-1.txt"):
        assert "compiled in" in (folder / log).read_text()
    assert "100%" in outputs[0]
    assert "Training on cpu (1 x cpu) in each of 2 processes: 1,024 steps" in outputs[0]
    assert "100%" not in outputs[1]


@pytest.mark.slow
def test_two_processes_evaluate_together_and_train_on_as_without(two, cache, tmp_path):
    evaluate = ("--eval-interval", "2", "--eval-interval-episodes", "4")
    statuses, outputs = Run(cache, tmp_path / "with", *TOTAL, *evaluate).finish()
    assert statuses == (0, 0), outputs
    rows = read_json_lines(tmp_path / "with" / "metrics.jsonl")
    assert [row["updates"] for row in rows if "eval/return" in row] == [2, 4]
    told = []
    for name in ("log.txt", "log-process-1.txt"):
        lines = (tmp_path / "with" / name).read_text().splitlines()
        told.append([line.split("  ")[1] for line in lines if "evaluated" in line])
    assert told[0] == told[1]
    assert len(told[0]) == 2
    assert_same_end(tmp_path / "with", two[0])


@pytest.mark.slow
def test_two_processes_save_a_training_that_one_loads(cache, tmp_path):
    port, script = free_port(), Path(__file__).with_name("save_together.py")
    given = {"JAX_COMPILATION_CACHE_DIR": str(cache), "XLA_FLAGS": cpu_devices(1)}
    processes = [
        start(sys.executable, script, port, process, tmp_path / "file", **given)
        for process in range(2)
    ]
    ended = [finish(process) for process in processes]
    assert [status for status, _ in ended] == [0, 0], ended
    trainer = trainer_of(mesh("data=1"))
    trainer.load(tmp_path / "file")
    assert int(trainer.state.update) == 2
    newest = find_checkpoint(tmp_path / "files")
    assert newest.name == "2"
    [mask] = read_arrays(newest, "training").arrays.values()
    np.testing.assert_array_equal(mask, trainer.state.collector_state.mask)
    alone = trainer_of(mesh("data=1"))
    alone.start(jax.random.key(0))
    alone.dispatch(2)
    assert_close(alone.state.learner, trainer.state.learner, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        alone.state.collector_state.mask, trainer.state.collector_state.mask
    )


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_update(cache, tmp_path):
    run = Run(cache, tmp_path / "run", *ENDLESS)
    run.wait_for_updates(3)
    run.processes[1].send_signal(signal.SIGTERM)
    statuses, outputs = run.finish()
    assert statuses == (143, 143), outputs
    rows = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    saved = read_metadata(find_checkpoint(tmp_path / "run"))["update"]
    assert saved == rows[-1]["updates"]
    texts = [(tmp_path / "run" / name).read_text() for name in ("log.txt", "log-process-1.txt")]
    stopped = [[line for line in text.splitlines() if "stopped at" in line] for text in texts]
    assert stopped[0][0].split("  ")[1] == stopped[1][0].split("  ")[1]


@pytest.mark.slow
def test_the_clock_of_process_0_decides_when_to_save(two):
    assert {path.name for path in (two[0] / "checkpoints").iterdir()} == {"0", "4"}


def lose(run, victim):
    """Kills a process of a run, and sees that all others end."""
    run.wait_for_updates(3)
    run.processes[victim].kill()
    began = time.monotonic()
    statuses, outputs = run.finish()
    assert time.monotonic() - began < 60
    # An abort (134 to a shell): the coordination service of JAX noticed before a computation did.
    assert statuses[1 - victim] in (5, -signal.SIGABRT), outputs
    if statuses[1 - victim] == 5:
        log = "log.txt" if victim == 1 else "log-process-1.txt"
        assert "Another process of this run was lost." in (run.folder / log).read_text()


@pytest.mark.slow
def test_when_process_0_is_lost_the_other_ends(cache, tmp_path):
    run = Run(cache, tmp_path / "run", *ENDLESS, "--heartbeat-timeout", 10)
    lose(run, victim=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "processes", "games"),
    [
        pytest.param(1, 1, 16, id="2x1-1x1"),
        pytest.param(8, 4, 64, id="2x8-4x8", marks=pytest.mark.nightly),
    ],
)
def test_a_run_of_two_processes_goes_on_in_another_number_of_them(
    cache, tmp_path, devices, processes, games
):
    """One is killed, the other ends. Then all save, because one of the new ones is to stop."""
    folder, told = tmp_path / "run", tmp_path / "told"
    told.mkdir()
    every = {
        "PYTHONPATH": os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")]),
        "HACKMATRIX_TEST_TOLD": str(told),
    }
    sizes = ("--num-envs", games, "--tracker", "wandb", "--save-interval", "1")
    first = Run(
        *(cache, folder, *ENDLESS, *sizes, "--heartbeat-timeout", 10),
        **{"devices": devices, "environments": [every] * 2},
    )
    lose(first, victim=1)
    assert games_of(told, 2) == shared_out(games, 2)

    trained = len(updates_of(folder))
    then = Run(
        *(cache, folder, *ENDLESS),
        **{"devices": devices, "environments": [every] * processes, "resumes": True},
    )
    then.wait_for_updates(trained + 2)
    then.processes[-1].send_signal(signal.SIGTERM)
    statuses, outputs = then.finish()
    assert set(statuses) == {143}, outputs
    updates = updates_of(folder)
    assert updates == list(range(1, updates[-1] + 1))
    assert read_metadata(find_checkpoint(folder))["update"] == updates[-1]
    assert games_of(told, processes) == shared_out(games, processes)

    inits = [json.loads(line) for line in (told / "wandb-inits.jsonl").read_text().splitlines()]
    assert [(each["process"], each["resume"]) for each in inits] == [(0, "allow"), (0, "allow")]
    assert len({each["id"] for each in inits}) == 1
    sent = read_json_lines(told / "wandb-rows.jsonl")
    assert sent[-1]["updates"] == updates[-1]


@pytest.mark.slow
def test_processes_that_were_told_different_things_do_not_start(cache, tmp_path):
    different = ((), ("--learning-rate", "0.5"))
    run = Run(cache, tmp_path / "run", *ENDLESS, differing=different)
    statuses, outputs = run.finish()
    assert statuses == (2, 2), outputs
    for output in outputs:
        assert (
            "--learning-rate: linear:0.5:0.0 in process 1, but linear:0.001:0.0 in process 0"
            in output
        )
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_one_process_agrees_with_itself():
    wishes = Requests(stop=15, save=True)
    assert agree(wishes) == wishes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"coordinator": "a:1"}, "--num-processes, --process-id missing"),
        ({"process_id": 1}, "--coordinator, --num-processes missing"),
        (
            {"coordinator": "a:1", "num_processes": 2, "process_id": 2},
            "--process-id 2 of --num-processes 2: use 0 to 1",
        ),
    ],
)
def test_processes_that_cannot_be_a_run_are_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        connect(**given, environment={})


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_NTASKS": "4"}, False),  # in a batch script itself, before srun
        ({"SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, True),
        ({"TPU_WORKER_HOSTNAMES": "10.0.0.1"}, False),
        ({"TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"}, True),
    ],
)
def test_launchers_are_recognised(environment, several):
    assert launched_together(environment) == several


def test_a_process_that_is_to_be_alone_stays_alone():
    assert not connect(num_processes=1, environment={"SLURM_STEP_NUM_TASKS": "4"})
