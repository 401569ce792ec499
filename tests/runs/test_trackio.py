"""A run in trackio: the library itself, whose database is read back."""

import json
import math
import socket
import sys
import webbrowser

import pytest
from cli.commands import assert_refused, done, invoke

from hackmatrix_rl.runs import make_run_folder
from hackmatrix_rl.runs._monitor import open_sinks
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines

PROJECT = "of-a-test"
TINY = ("--num-envs", 8, "--num-steps", 4, "--num-minibatches", 2, "--width", 8, "--mesh", "data=1")
CARTPOLE = ("train", "--env", "cartpole", *TINY, "--updates-per-dispatch", 1)
TRACKED = ("--tracker", "trackio", "--wandb-project", PROJECT, "--eval-interval", 2)


@pytest.fixture(scope="module", autouse=True)
def trackio(tmp_path_factory):
    """The library with an empty folder, and with a token for which it could ask the hub."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRACKIO_DIR", str(tmp_path_factory.mktemp("trackio")))
        patched.setenv("HF_TOKEN", "hf_" + "0" * 34)
        yield pytest.importorskip("trackio")


@pytest.fixture
def nothing_leaves(monkeypatch):
    """Whatever looks for another machine, or opens a browser."""
    asked = []

    def refuse(*given, **named):
        asked.append(given)
        raise OSError("there is no network")

    for owner, name in ((socket, "getaddrinfo"), (socket.socket, "connect"), (webbrowser, "open")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setenv("TRACKIO_SERVER_URL", "http://127.0.0.1:9?write_token=x")
    monkeypatch.setenv("TRACKIO_SPACE_ID", "somebody/a-space")
    return asked


def rows_in(trackio, run):
    """The id of the project's only run of this folder, and its rows."""
    wandb_id = json.loads((run / "run.json").read_text())["wandb_id"]
    (found,) = (each for each in trackio.Api().runs(PROJECT) if each.id == wandb_id)
    assert found.name == wandb_id
    return trackio.SQLiteStorage.get_logs(PROJECT, found.name, run_id=found.id)


def test_a_resumed_run_has_one_id_grouped_curves_and_a_video_of_each_evaluation(
    trackio, nothing_leaves, tmp_path, capfd
):
    run = tmp_path / "run"
    tracked = (*TRACKED, "--eval-interval-episodes", 2, "--eval-episodes", 4)
    done(*CARTPOLE, *tracked, "--total-timesteps", 64, "--eval-episodes", 0, "--run-dir", run)
    done("train", "--resume-run", run, "--total-timesteps", 128, "--eval-episodes", 4)
    *rows, last = rows_in(trackio, run)
    assert [row["step"] for row in rows] == [32, 64, 96, 128]
    flat = read_json_lines(run / "metrics.jsonl")
    for row, here in zip(rows, flat, strict=True):
        assert row["env_steps"] == here["env_steps"] == row["step"]
        assert row["train/entropy"] == here["entropy"]
        assert row["time/steps_per_second"] == here["steps_per_second"]
        assert row["time/compile"] == here["time/compile"]
        assert {name.partition("/")[0] for name in row if "/" in name} <= {"train", "time", "eval"}
    assert ["eval/return" in row for row in rows] == [False, True, False, True]
    for row in (rows[1], rows[3], last):
        video = row["replay.gif"]
        assert video["_type"] == "trackio.video"
        file = trackio.utils.MEDIA_DIR / video["file_path"]
        assert file.read_bytes().startswith(b"GIF89a")
    assert last["step"] == 129
    assert [row["player"] for row in last["final evaluations"]["_value"]] == ["trained", "random"]
    assert nothing_leaves == []
    assert capfd.readouterr().out == "", "the library prints nothing between our lines"


def test_a_run_that_the_project_no_longer_has_is_said_and_begins_here(trackio, tmp_path):
    config = make_config(
        "debug", {"tracker": "trackio", "wandb_project": "gone", "run_dir": str(tmp_path / "run")}
    )
    folder = make_run_folder(config)
    for step in (64.0, 128.0):
        sink = open_sinks(config, folder)
        sink.write({"env_steps": step, "steps_per_second": 1.0})
        sink.close()
    assert "trackio" not in folder.log.read_text()
    trackio.delete_project("gone", force=True)
    sink = open_sinks(config, folder)
    sink.write({"env_steps": 192.0, "steps_per_second": 1.0})
    sink.close()
    said = f"trackio: the project gone has no run {folder.wandb_id}. Its curves begin here; the "
    assert said + "earlier rows are in metrics.jsonl." in folder.log.read_text()
    (row,) = trackio.SQLiteStorage.get_logs("gone", folder.wandb_id, run_id=folder.wandb_id)
    assert row["step"] == 192


def test_flat_names_are_written_on_request(trackio, tmp_path):
    given = {"tracker": "trackio", "metric_names": "flat", "wandb_project": "flat"}
    config = make_config("debug", {**given, "run_dir": str(tmp_path / "run")})
    folder = make_run_folder(config)
    sink = open_sinks(config, folder)
    sink.write({"env_steps": 64.0, "return": 1.0, "steps_per_second": 2.0, "entropy": math.nan})
    sink.close()
    (row,) = trackio.SQLiteStorage.get_logs("flat", folder.wandb_id, run_id=folder.wandb_id)
    assert row.keys() - {"step", "timestamp"} == {"env_steps", "return", "steps_per_second"}


def test_a_missing_package_and_a_project_that_cannot_be_are_said_first(monkeypatch, tmp_path):
    begin = (*CARTPOLE, *TRACKED, "--total-timesteps", 64, "--run-dir", tmp_path / "run")
    reserved = invoke(*begin, "--wandb-project", "registry-x")
    assert_refused(reserved, "--wandb-project: ", "'registry-x' is not allowed")
    monkeypatch.setitem(sys.modules, "trackio", None)
    needs = "--tracker trackio needs the package trackio", "pip install '.[trackio]'"
    assert_refused(invoke(*begin), *needs)
    assert not (tmp_path / "run").exists()
