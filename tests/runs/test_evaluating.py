"""`--eval-interval`: evaluations during a run, which training does not feel."""

import pytest

from hackmatrix_rl.runs.sinks import read_json_lines

from .on_cartpole import go_on, settings, train

EVALUATED = {"eval_interval": 3, "eval_interval_episodes": 4, "mesh": "data=1"}


def rows_of(folder):
    return read_json_lines(folder / "metrics.jsonl")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run of 8 updates in dispatches of up to 2, evaluated at every third."""
    folder = tmp_path_factory.mktemp("evaluated")
    assert train(settings(folder, total_timesteps=2048, **EVALUATED)).exit_code == 0
    return folder / "run"


def test_the_rows_have_it_at_every_multiple_whatever_the_dispatches(evaluated):
    rows = rows_of(evaluated)
    assert [row["updates"] for row in rows if "eval/return" in row] == [3, 6]
    (first, _) = [row for row in rows if "eval/return" in row]
    assert first["eval/episodes"] == 4
    assert first["eval/return_low"] < first["eval/return"] < first["eval/return_high"]
    assert [row["updates"] for row in rows] == [2, 3, 5, 6, 8]
    assert "update 3: evaluated on 4 games: return " in (evaluated / "log.txt").read_text()


def test_a_resumed_run_is_evaluated_where_it_would_have_been_on_the_same_games(evaluated, tmp_path):
    train(settings(tmp_path, total_timesteps=1024, **EVALUATED))
    go_on(tmp_path, total_timesteps=2048)
    straight, resumed = (
        {
            row["updates"]: {name: row[name] for name in row if name.startswith("eval/")}
            for row in rows_of(folder)
            if "eval/return" in row
        }
        for folder in (evaluated, tmp_path / "run")
    )
    assert resumed == straight
