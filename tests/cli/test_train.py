"""What a run leaves behind, how it ends, and how it goes on under another reward."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from hackmatrix_rl.cli._train import describe
from hackmatrix_rl.runs import make_run_folder
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines

from .commands import done, invoke

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_a_run_says_what_it_will_do_and_where_the_result_is(trained):
    folder, output = trained
    assert "Algorithm: ppo, the choice of --preset debug" in output
    assert "2,048 steps in 8 updates of 16 games x 16 steps" in output
    assert "compiling the update of ppo ... (" in output
    assert "100%" in output
    assert f"hackmatrix-rl watch {shlex.quote(str(folder))}" in output
    assert "\x1b" not in output, "plain lines where the output is no terminal"


def test_a_run_folder_holds_everything(trained):
    folder, _ = trained
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "run.json", "metrics.jsonl", "log.txt", "checkpoints"),
        *("learning_curve.png", "replay.html", "replays", "summary.json", "versions.json"),
    }
    assert json.loads((folder / "config.json").read_text())["num_envs"] == 16
    assert "compiled in" in (folder / "log.txt").read_text()
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_tell_what_the_display_shows_and_the_summary_compares(trained):
    rows = read_json_lines(trained[0] / "metrics.jsonl")
    assert [row["env_steps"] for row in rows] == [512, 1024, 1536, 2048]
    wanted = "return stage length entropy approx_kl policy_loss value_loss steps_per_second"
    assert set(wanted.split()) <= rows[-1].keys()
    summary = json.loads((trained[0] / "summary.json").read_text())
    assert list(summary) == ["trained", "random", "runner"]
    assert {found["episodes"] for found in summary.values()} == {4}
    assert summary["trained"]["env_steps"] == 2048


def bash_words(line):
    """The words of a printed command, as a shell reads them."""
    shown = subprocess.run(
        ["bash", "-c", rf"printf '%s\n' {line}"], capture_output=True, check=True
    )
    return shown.stdout.decode().splitlines()


class ReachedError(Exception):
    """A command came as far as it was to come."""


def ends_here(*_, **__):
    raise ReachedError


def test_a_run_that_went_wrong_before_it_saved_is_gone_on_with_and_watched_as_it_says(
    tmp_path, monkeypatch
):
    stops = ("--kl-alarm", 1e-12, "--stop-after-kl", 1)
    folder = tmp_path / "a$x_$b 'c \u202e"  # to matplotlib, a shell and a terminal
    stopped = invoke("train", "--preset", "debug", *stops, "--run-dir", folder)
    assert stopped.exit_code == 3, stopped.output
    assert "the last good checkpoint is kept" in stopped.stdout
    again, see = map(bash_words, re.findall(r"  hackmatrix-rl (.*)", stopped.stdout))
    with monkeypatch.context() as patched:
        patched.setattr("hackmatrix_rl.view.replays.Mind", ends_here)  # what follows is long
        assert isinstance(invoke(*see).exception, ReachedError)
    short = ("--stop-after-kl", "none", "--total-timesteps", 512, "--eval-episodes", 0)
    told = done(*again, *short)
    assert "resumed at update 0, 0 steps" in told.stdout


def test_a_gpu_that_jax_cannot_see_is_spoken_of(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hackmatrix_rl.cli._task.system.unseen_accelerator",
        lambda backend: "install the cuda extra",
    )
    config = make_config("cpu", {"run_dir": str(tmp_path)})
    assert describe(config, make_run_folder(config))[0] == "install the cuda extra"


@pytest.fixture(scope="module")
def resumed(trained, tmp_path_factory):
    """The finished run, gone on with under another reward; and what that printed."""
    folder = tmp_path_factory.mktemp("reward") / "run"
    shutil.copytree(trained[0], folder)
    more = ("--total-timesteps", 3072, "--eval-episodes", 2)
    weights = "victory=0.1, step_penalty=2,score_gain=0"
    result = done("train", "--resume-run", folder, "--reward", weights, *more)
    return folder, result.output


def test_a_run_goes_on_under_another_reward_and_says_so(resumed):
    folder, output = resumed
    weights = "step_penalty=2,score_gain=0,victory=0.1"
    assert f"--reward changed: it was the game's own, and is {weights} from here on" in output
    assert "the games' number, sizes, reward or starts changed: new games start" in output
    assert json.loads((folder / "config.json").read_text())["reward"] == weights


def test_the_rows_have_both_returns_from_there_on(resumed):
    rows = read_json_lines(resumed[0] / "metrics.jsonl")
    before = [row for row in rows if row["env_steps"] <= 2048]
    after = [row for row in rows if row["env_steps"] > 2048 and "return" in row]
    assert not any("learned_return" in row for row in before)
    assert after
    assert all(row["learned_return"] != row["return"] for row in after)
    for row in after:  # the game's own, part by part
        assert row["reward/step_penalty"] < 0


def test_a_policy_of_another_reward_plays_and_its_return_is_the_games(resumed):
    result = done("eval", resumed[0], "--episodes", 2, "--json")
    found = json.loads(result.stdout)
    assert {"return", "score"} <= found.keys()
    summary = json.loads((resumed[0] / "summary.json").read_text())
    assert list(summary) == ["trained", "random", "runner"]
