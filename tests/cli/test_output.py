"""Standard output that is full, closed, or read by nobody: real processes, real streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.sinks import read_json_lines

pytestmark = pytest.mark.processes

TRAINING = Path(__file__).parents[1] / "runs" / "cartpole_command.py"
COMMAND = f"{sys.executable} -m hackmatrix_rl"
# What an evaluation finds stands for the evaluation: this is about what becomes of its output.
EVALUATION = """
import sys
from types import SimpleNamespace
from unittest import mock
from hackmatrix_rl.cli import main
found = SimpleNamespace(unfinished=0, as_dict=lambda: {"episodes": 1})
with mock.patch("hackmatrix_rl.evaluation.evaluate", lambda *_, **__: found):
    main(["eval", "random", "--json"])
"""
FULL, CLOSED, UNREAD = "> /dev/full", ">&-", "| true"
UPDATES = 4


def shell(command, **environment):
    """Exit status of the first command of a pipe, and what standard error got."""
    ended = subprocess.run(
        ["bash", "-c", command + "; exit ${PIPESTATUS[0]}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("where", [FULL, CLOSED])
def test_a_command_whose_output_is_its_result_fails_in_one_line(where, tmp_path):
    program = tmp_path / "evaluation.py"
    program.write_text(EVALUATION)
    for command in (f"{COMMAND} --help", f"{sys.executable} {program}"):
        status, said = shell(f"{command} {where}")
        assert status == 4
        (line,) = said.splitlines()
        assert line.startswith("Error: standard output cannot be written: ")


def test_output_that_nobody_reads_is_no_traceback_and_what_is_refused_keeps_its_status():
    # The reader ends before there is anything to read.
    status, said = shell(f"(sleep 1; exec {COMMAND} --help) {UNREAD}")
    assert status == 4
    assert said == "Error: standard output cannot be written: Broken pipe.\n"
    for where in ("2> /dev/full", "2>&-"):
        assert shell(f"{COMMAND} traim {where}")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("where", [FULL, CLOSED, UNREAD, "> /dev/full 2> /dev/full"])
def test_training_goes_on_to_its_end_whatever_becomes_of_its_output(where, cache, tmp_path):
    run = tmp_path / "run"
    status, said = shell(
        f"{sys.executable} {TRAINING} train --preset debug --total-timesteps {UPDATES * 256} "
        f"--eval-episodes 0 --run-dir {run} {where}",
        JAX_COMPILATION_CACHE_DIR=cache,
    )
    assert status == 0, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert said.count("standard output cannot be written") == ("2>" not in where)
    assert read_json_lines(run / "metrics.jsonl")[-1]["updates"] == UPDATES
    assert read_metadata(find_checkpoint(run))["update"] == UPDATES
    assert "100%" in (run / "log.txt").read_text()
