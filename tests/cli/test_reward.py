"""`--reward`: what is learned from changes, what is shown stays the game's."""

import json
import shutil

import pytest

from hackmatrix_rl.runs.sinks import read_json_lines

from .commands import done

pytestmark = pytest.mark.slow


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
    assert "the games' number, sizes or reward changed: new games start" in output
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
