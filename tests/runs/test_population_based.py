"""Population-based training by `train --pbt-interval`, with all that a run has."""

import sys

import numpy as np
import pytest
from cli.commands import assert_refused, done, invoke
from matplotlib.figure import Figure
from processes import assert_same_end, copy_stopped_after, finish, start

import hackmatrix_rl as hm
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.runs._lineage import Lineage, draw_setting, schedule_file
from hackmatrix_rl.runs.config import make_config, read_settings
from hackmatrix_rl.runs.sinks import read_json_lines

SIZES = ("--num-envs", 4, "--num-steps", 16, "--num-minibatches", 1, "--update-epochs", 1)
SHORT = ("--total-timesteps", 448, "--updates-per-dispatch", 4, "--width", 4, "--depth", 1)
ENDS = ("--eval-episodes", 0, "--save-interval", 3, "--mesh", "data=1", "--keep", 9)
CARTPOLE = ("train", "--env", "cartpole", *SIZES, *SHORT, *ENDS)
VARIED = ("--vary", "learning_rate=1e-3,1e-2,gamma=0.9,0.99")
EXPLOITS = ("--pbt-interval", 2, "--pbt-fraction", 0.5, "--pbt-perturb", 1.5, "--pbt-burn-in", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    """A population-based training, as a user starts it."""
    folder = tmp_path_factory.mktemp("based") / "run"
    command = (sys.executable, "-m", "hackmatrix_rl", *CARTPOLE, *VARIED, *EXPLOITS)
    status, told = finish(start(*command, "--run-dir", folder, JAX_COMPILATION_CACHE_DIR=cache))
    assert status == 0, told
    assert "gamma=0.9,0.99, copied every 2 updates" in told
    return folder


def rows_of(run):
    return read_json_lines(run / "metrics.jsonl")


@pytest.mark.slow
def test_a_run_has_its_lineage(run):
    rows = rows_of(run)
    assert [row["updates"] for row in rows] == [2, 3, 4, 6, 7]
    exploits = [row["updates"] for row in rows if "member/0/parent" in row]
    assert exploits == [4, 6]
    assert (run / "lineage.png").read_bytes().startswith(b"\x89PNG")
    found = Lineage.from_rows(rows)
    assert found.names == ("gamma", "learning_rate")
    np.testing.assert_allclose(found.settings["learning_rate"][0], [1e-3, 1e-2], rtol=1e-5)
    gammas = {round(each, 3) for each in found.settings["gamma"][1]}
    assert gammas <= {0.9, 0.933, 0.85, 0.99, 0.993, 0.985}
    page, _ = report_of(str(run))
    assert "learning_rate of each training" in page


@pytest.mark.slow
def test_a_stopped_run_goes_on_bit_by_bit(run, tmp_path):
    stopped = copy_stopped_after(run, 3, tmp_path / "stopped")
    done("train", "--resume-run", stopped)
    assert_same_end(run, stopped)
    told = invoke("train", "--resume-run", stopped, "--pbt-interval", 3)
    assert_refused(told, "--pbt-interval 3", "its trainings copy each other at that interval")


@pytest.mark.slow
def test_the_settings_that_it_found_are_those_of_a_training(run, tmp_path):
    settings = read_settings(run / "schedule.toml")
    config = make_config("cpu", settings)
    assert config.members == 1
    assert config.pbt_interval is None
    assert str(config.learning_rate).startswith("piecewise:")
    assert config.total_timesteps == 448
    alone = tmp_path / "alone"
    done("train", "--config", run / "schedule.toml", "--run-dir", alone)
    # A learning rate falls within an interval, and the file has its mean.
    line, rows = Lineage.from_rows(rows_of(run)), rows_of(alone)
    value = line.used["learning_rate"][0][line.winner()[0]]
    np.testing.assert_allclose(rows[0]["learning_rate"], value, rtol=1e-3)
    assert hm.load(alone).config.gamma == config.gamma


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("algorithm", "sizes"),
    [
        ("pqn", ("--num-steps", 16, "--num-minibatches", 1)),
        ("r2d2", ("--train-freq", 16, "--learning-starts", 64, "--keep-buffer")),
    ],
)
def test_other_algorithms_copy_and_go_on_bit_by_bit(algorithm, sizes, tmp_path):
    run, stopped = tmp_path / "run", tmp_path / "stopped"
    common = ("--algorithm", algorithm, "--num-envs", 4, *SHORT[:4], "--width", 8, *ENDS, *sizes)
    varied = ("--vary", "learning_rate=1e-3,1e-2", *EXPLOITS)
    done("train", "--env", "cartpole", *common, *varied, "--run-dir", run)
    assert sum("member/0/parent" in row for row in rows_of(run)) == 2
    copy_stopped_after(run, 3, stopped)
    done("train", "--resume-run", stopped)
    assert_same_end(run, stopped)


def lineage():
    """Three members over three intervals, of which the last one has no exploit."""
    rates = [(1.0, 2.0, 4.0), (1.0, 2.0, 2.5), (3.0, 2.0, 2.5)]
    parents, fitness = [(0, 1, 1), (2, 1, 2), None], [(5, 6, 1), (1, 2, 9), None]
    rows = []
    for place in range(3):
        row = {"env_steps": 100 * (place + 1), "updates": place + 1}
        for member in range(3):
            row[f"member/{member}/setting/learning_rate"] = rates[place][member]
            if parents[place] is not None:
                row[f"member/{member}/parent"] = parents[place][member]
                row[f"member/{member}/fitness"] = fitness[place][member]
        rows.append(row)
    return rows


def test_the_winner_is_followed_back_through_its_ancestors():
    found = Lineage.from_rows(lineage())
    assert found.winner() == [1, 2, 2]
    assert found.schedule("learning_rate") == [(0.0, 2.0), (100.0, 2.5)]


def test_the_picture_has_a_dot_for_each_copy_and_a_thick_line_for_the_winner():
    axes = Figure().subplots()
    draw_setting(axes, Lineage.from_rows(lineage()), "learning_rate")
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert sorted((*dot.get_xdata(), *dot.get_ydata()) for dot in dots) == [(100, 2.5), (200, 3.0)]
    thick = [line for line in axes.lines if line.get_linewidth() > 3]
    assert [tuple(line.get_ydata()) for line in thick] == [(2, 2), (2.5, 2.5), (2.5, 2.5)]


def test_rows_without_a_lineage_have_none():
    rows = lineage()
    assert Lineage.from_rows([]) is None
    assert Lineage.from_rows([{"env_steps": 1, "return": 2.0}]) is None
    del rows[0]["member/1/setting/learning_rate"]
    assert Lineage.from_rows(rows) is None
    odd = lineage()
    odd[0]["member/1/parent"] = 99  # a file that anybody may have written
    assert Lineage.from_rows(odd).parents[0].tolist() == [0, 1, 1]


def test_a_setting_without_schedules_has_its_last_value():
    varied = {"vary": "clip_coef=0.1,0.2,0.3", "pbt_interval": 1, "pbt_fraction": 0.5}
    config = make_config("debug", {"env": "cartpole", **varied})
    rows = [
        {name.replace("learning_rate", "clip_coef"): value for name, value in row.items()}
        for row in lineage()
    ]
    text = schedule_file(config, Lineage.from_rows(rows))
    assert "clip_coef = 2.5" in text
    assert "# clip_coef takes no schedule" in text
    assert "vary" not in text
    unchanged = [{**row, "member/1/setting/learning_rate": 2.5} for row in lineage()]
    assert 'learning_rate = "constant:2.5"' in schedule_file(config, Lineage.from_rows(unchanged))
