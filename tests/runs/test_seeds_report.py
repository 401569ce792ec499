"""Several runs on one page."""

import json

import numpy as np
import pytest

from hackmatrix_rl.config import make_config
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs import make_run_folder, report_of_seeds

RETURNS = {"a": 10.0, "b": 20.0, "c": 60.0}


def make(folder, seed, mean, **settings):
    """A run that has ended with a mean return."""
    run = make_run_folder(
        make_config(
            "debug", {"run_dir": str(folder), "seed": seed, "wandb_name": str(seed), **settings}
        )
    )
    rows = [{"updates": n, "env_steps": n * 1e5, "return": n * mean / 40} for n in range(1, 41)]
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    estimate = {"mean": mean, "ci95": [mean - 1, mean + 1]}
    if mean:
        won = {"mean": 0.25, "ci95": [0.1, 0.5]}
        summary = {"trained": {"episodes": 16, "return": estimate, "win_rate": won}}
        run.summary.write_text(json.dumps(summary))
    return str(folder)


@pytest.fixture
def runs(tmp_path):
    return [make(tmp_path / name, seed, RETURNS[name]) for seed, name in enumerate(RETURNS)]


def test_runs_that_differ_in_the_seed_alone_are_one_way_to_train(runs):
    page, returns = report_of_seeds(runs)
    assert returns == {"all": [[10.0], [20.0], [60.0]]}
    for part in ("3 runs", "30.00 (-35.", "25.0%", "interquartile mean", "share of runs above"):
        assert part in page
    assert "Ways to train" not in page
    assert page.count("<svg") == 2


def test_ways_to_train_are_told_apart_by_what_differs(runs, tmp_path):
    other = make(tmp_path / "other", 7, 5.0, learning_rate=0.5)
    page, returns = report_of_seeds([*runs, other])
    assert list(returns) == ["learning_rate 0.001", "learning_rate 0.5"]
    assert returns["learning_rate 0.5"] == [[5.0]]
    assert "Ways to train" in page


def test_the_returns_are_what_rliable_reads(runs):
    _, returns = report_of_seeds(runs)
    assert np.array(returns["all"]).shape == (3, 1)


def test_a_run_without_evaluation_or_named_twice_is_refused(runs, tmp_path):
    unfinished = make(tmp_path / "unfinished", 0, 0)
    with pytest.raises(ConfigError, match=r"unfinished: has no evaluation yet .* let it end"):
        report_of_seeds([*runs, unfinished])
    with pytest.raises(ConfigError, match="a: named twice"):
        report_of_seeds([*runs, runs[0]])
