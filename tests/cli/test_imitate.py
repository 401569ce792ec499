"""`hackmatrix-rl imitate`, as users run it."""

import json

import pytest
from etils import epath

from hackmatrix_rl.runs.checkpoints import read_arrays
from hackmatrix_rl.runs.sinks import read_json_lines

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.search

SMALL = (
    *("--preset", "debug", "--num-envs", 4, "--num-steps", 8, "--width", 8),
    *("--max-enemies", 4, "--max-transmissions", 4, "--history", 1, "--updates-per-dispatch", 1),
    *("--buffer-size", 64, "--eval-episodes", 0),
)


LEARNS = ("imitate", *SMALL, "--total-timesteps", 64)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has learned from a teacher."""
    run = tmp_path_factory.mktemp("imitate") / "run"
    told = done(*LEARNS, "--teacher", "runner", "--run-dir", run)
    assert "Teacher: runner" in told.stdout
    return run


def test_a_run_learns_from_a_teacher_and_train_resumes_it(run):
    stored = json.loads((run / "config.json").read_text())
    assert (stored["algorithm"], stored["teacher"]) == ("imitation", "runner")
    row = read_json_lines(run / "metrics.jsonl")[-1]
    assert {"accuracy", "cross_entropy", "teacher_played", "value_loss"} <= set(row)
    accuracies = {name for name in row if name.startswith("accuracy")}
    assert accuracies <= {"accuracy", "accuracy_siphons", "accuracy_programs"}
    assert any(
        ".buffer" in name
        for name in read_arrays(epath.Path(run / "checkpoints" / "2"), "training").arrays
    )

    done("train", "--resume-run", run, "--total-timesteps", 96)
    assert read_json_lines(run / "metrics.jsonl")[-1]["env_steps"] == 96


@pytest.mark.nightly
def test_a_student_learns_what_a_search_would_draw(run, tmp_path):
    student = tmp_path / "student"
    searches = ("--teacher", run, "--teacher-search", 2, "--soft-labels", "--init", run)
    done(*LEARNS, *searches, "--run-dir", student)
    stored = json.loads((student / "config.json").read_text())
    assert (stored["teacher_search"], stored["soft_labels"]) == (2, True)
    held = read_arrays(epath.Path(student / "checkpoints" / "2"), "training").arrays
    assert any(name.endswith("positions.probabilities") for name in held)


def test_a_teacher_that_does_not_exist_lists_the_runs_that_do(here):
    (here / "runs" / "tuesday").mkdir(parents=True)
    refused = invoke("imitate", *SMALL, "--teacher", "nobody")
    assert_refused(refused, "random, runner, expert", "runs/tuesday, or another run or checkpoint")
    assert_refused(invoke("imitate", *SMALL, "--teacher", "tuesday"), "--teacher tuesday: no check")


@pytest.mark.parametrize("command", [("imitate", *SMALL, "--teacher"), ("eval",)])
def test_a_search_by_somebody_who_does_not_exist_lists_who_can(here, command):
    (here / "runs" / "tuesday").mkdir(parents=True)
    refused = invoke(*command, "search(expertt, 30)")
    assert_refused(refused, "expertt: no checkpoint there", "Use expert, pretrained, runs/tuesday")


def test_a_teacher_of_the_other_league_is_refused_in_a_sentence(run):
    refused = invoke(*LEARNS, "--teacher", run, "--league", "no-rewind")
    assert_refused(refused, f"--teacher {run} was trained in the league original", "Use --league")


def test_demonstrations_are_refused_where_something_is(tmp_path):
    flags = ("imitate", *SMALL, "--teacher", "runner", "--save-demonstrations", tmp_path)
    (tmp_path / "file").write_text("mine")
    assert_refused(invoke(*flags), "exists already")
    assert_refused(invoke(*flags, "--dry-run"), "--save-demonstrations")
