"""A run of supervised learning as users start it, and what is done with it afterwards."""

import json
import sys

import pytest
from processes import finish, start

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.supervised import answers, load_answers
from hackmatrix_rl.runs.sinks import read_json_lines

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

SETTINGS = (
    *("--task", "maze", "--size", "7", "--mixer", "attention", "--openings", "1"),
    *("--eval-interval", "10", "--curriculum-recursion", "0.5", "--ema", "0.9"),
    *("--halt-exploration", "linear:0.3:0.05", "--optimizer", "adamw", "--low-cycles", "3"),
)


def test_a_run_is_trained_judged_loaded_and_shown(tmp_path, cache):
    def command(name, *arguments):
        program = (sys.executable, "-m", "hackmatrix_rl", name)
        return finish(start(*program, *arguments, JAX_COMPILATION_CACHE_DIR=cache))

    run = tmp_path / "run"
    by = ("--algorithm", "supervised", "--preset", "debug", *SETTINGS, "--run-dir", run)
    status, output = command("train", *by)
    assert status == 0, output
    assert "Puzzles: 32, maze of 7 x 7, 1 openings; 16 fresh ones for evaluation" in output
    assert "of 16 fresh puzzles right" in output
    rows = list(read_json_lines(run / "metrics.jsonl"))
    assert [row["updates"] for row in rows] == [5, 10, 15, 20]
    assert ["eval/puzzles_right" in row for row in rows] == [False, True, False, True]
    assert [row["low_cycles"] for row in rows] == [2.0, 2.0, 3.0, 3.0]
    summary = json.loads((run / "summary.json").read_text())["trained"]
    loaded = load_answers(run)
    fresh = loaded.config.examples().fresh
    found = answers(loaded.policy, fresh, steps=loaded.config.supervision_steps)
    assert summary["cells_right"]["mean"] == pytest.approx(found.cells_right.mean)
    assert rows[-1]["eval/cells_right"] == pytest.approx(found.cells_right.mean)
    with pytest.raises(hm.ConfigError, match=r"for an environment.*load_answers loads it"):
        hm.load(run)
    for name in ("eval", "watch"):
        status, output = command(name, run)
        assert status == 2, output
        assert "no policy for an environment" in output
    status, output = command("report", run, "--output", tmp_path / "page.html")
    assert status == 0, output
    assert "share of puzzles right" in (tmp_path / "page.html").read_text()
    status, output = command("train", "--resume-run", run, "--size", "9")
    assert status == 2, output
    assert "--size 9: the run" in output
    assert "it has learned from these puzzles" in output


def test_the_plan_of_a_slice_that_is_not_here(cache):
    pytest.importorskip("libtpu")
    program = (sys.executable, "-m", "hackmatrix_rl", "train", "--algorithm", "supervised")
    where = ("--preset", "tpu", "--target", "v4-64", "--dry-run", "--task", "maze", "--size", "11")
    sizes = ("--global-batch-size", "6144", "--puzzles", "6144", "--eval-puzzles", "0")
    status, output = finish(start(*program, *where, *sizes, JAX_COMPILATION_CACHE_DIR=cache))
    assert status == 0, output
    assert "6,144, 192 on each device; 16 supervision steps" in output
    assert "data=32" in output
