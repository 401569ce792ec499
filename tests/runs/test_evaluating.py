"""`--eval-interval`: evaluations during a run, which training does not feel."""

import jax
import pytest

from hackmatrix_rl.config import make_config
from hackmatrix_rl.runs import find_resumable_run, make_run_folder, reopen_run_folder, run
from hackmatrix_rl.runs.sinks import read_json_lines

from .cartpole_command import compose


def settings(folder, **changes):
    return make_config(
        "debug", {"run_dir": str(folder), "eval_interval_episodes": 4, "mesh": "data=1", **changes}
    )


def train(config):
    result = run(config, compose(config, key=jax.random.key(0)), make_run_folder(config))
    assert result.exit_code == 0


def go_on(folder, **changes):
    stopped = find_resumable_run(str(folder))
    config = stopped.config(changes)
    again = reopen_run_folder(config, stopped.path, stopped.metadata["run"])
    run(config, compose(config, key=jax.random.key(0)), again, resume=stopped.checkpoint)


def rows_of(folder):
    return read_json_lines(folder / "metrics.jsonl")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run of 8 updates in dispatches of up to 2, evaluated at every third."""
    folder = tmp_path_factory.mktemp("evaluated") / "run"
    train(settings(folder, total_timesteps=2048, eval_interval=3))
    return folder


def test_the_rows_have_it_at_every_multiple_whatever_the_dispatches(evaluated):
    rows = rows_of(evaluated)
    assert [row["updates"] for row in rows if "eval/return" in row] == [3, 6]
    (first, _) = [row for row in rows if "eval/return" in row]
    assert first["eval/episodes"] == 4
    assert first["eval/return_low"] < first["eval/return"] < first["eval/return_high"]
    assert [row["updates"] for row in rows] == [2, 3, 5, 6, 8]
    assert "update 3: evaluated on 4 games: return " in (evaluated / "log.txt").read_text()


def test_a_resumed_run_is_evaluated_where_it_would_have_been_on_the_same_games(evaluated, tmp_path):
    train(settings(tmp_path / "run", total_timesteps=1024, eval_interval=3))
    go_on(tmp_path / "run", total_timesteps=2048)
    straight, resumed = (
        {
            row["updates"]: {name: row[name] for name in row if name.startswith("eval/")}
            for row in rows_of(folder)
            if "eval/return" in row
        }
        for folder in (evaluated, tmp_path / "run")
    )
    assert resumed == straight
