"""Several trainings in one program (`--seeds`, `--vary`), with all that a run has."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli.commands import assert_refused, done, invoke
from processes import assert_same_end, copy_stopped_after, finish, start
from training.states import arrays, assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.runs.checkpoints import initial_weights
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system.errors import ConfigError

STUBS = Path(__file__).parents[1] / "system" / "stubs"
SIZES = ("--num-envs", 8, "--num-steps", 8, "--num-minibatches", 2, "--update-epochs", 1)
SHORT = ("--total-timesteps", 256, "--updates-per-dispatch", 1, "--width", 8, "--depth", 1)
ENDS = ("--eval-episodes", 0, "--save-interval", 2, "--mesh", "data=1")
CARTPOLE = ("train", "--env", "cartpole", *SIZES, *SHORT, *ENDS)
VARIED = ("--seeds", 2, "--seed", 5, "--vary", "learning_rate=1e-3,3e-3")


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    """A run of four trainings, as a user starts it."""
    folder = tmp_path_factory.mktemp("population") / "run"
    command = (sys.executable, "-m", "hackmatrix_rl", *CARTPOLE, *VARIED, "--run-dir", folder)
    status, told = finish(start(*command, JAX_COMPILATION_CACHE_DIR=cache))
    assert status == 0, told
    assert "4 in one program: seeds 5 to 6, learning_rate=1e-3,3e-3" in told
    assert re.findall(r"learning_rate=(0\.00.) │ +2 │", told) == ["0.001", "0.003"]
    assert f"The trained player: training {hm.load(folder).member} (learning_rate=" in told
    return folder


@pytest.mark.slow
def test_a_run_of_several_trainings_has_the_metrics_of_each(run):
    rows = read_json_lines(run / "metrics.jsonl")
    assert [row["env_steps"] for row in rows] == [64, 128, 192, 256]
    rates = [rows[0][f"member/{member}/learning_rate"] for member in range(4)]
    np.testing.assert_allclose(rates, [1e-3, 1e-3, 3e-3, 3e-3], rtol=1e-6)
    assert "return_iqm" in rows[-1]


@pytest.mark.slow
def test_each_is_that_of_its_seed_and_settings_alone(run, tmp_path):
    alone = tmp_path / "alone"
    done(*CARTPOLE, "--seed", 6, "--learning-rate", 3e-3, "--run-dir", alone)
    single, member = hm.load(alone), hm.load(run, member=3)
    ends = [arrays((each.policy, each.value_scale())) for each in (single, member)]
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    others = [hm.load(run, member=0), hm.load(run, member=1), member]
    assert len({bytes(arrays(each.policy)[0]) for each in others}) == 3
    assert_same(hm.load(run, like=single.policy, member=1), others[1].policy)


@pytest.mark.slow
def test_the_best_of_them_by_a_metric_is_loaded_and_plays(run):
    end = read_json_lines(run / "metrics.jsonl")[-1]  # the last tenth of four updates

    def last(name):
        return [end[f"member/{k}/{name}"] for k in range(4)]

    number = np.argmax(last("return"))
    assert hm.load(run, member="return").member == number
    assert hm.load(run, member="-entropy").member == np.argmin(last("entropy"))
    with pytest.raises(
        ConfigError, match=r"no training there has a luck\. Use a number, or one of"
    ):
        hm.load(run, member="luck")
    best = hm.load(run, member="-entropy")
    player, _ = find_player(f"{run}#-entropy")
    assert_same(player.policy, best.policy)
    with pytest.raises(ConfigError, match="member is 4"):
        find_player(f"{run}#4")


@pytest.mark.slow
def test_the_best_one_plays_and_begins_another_training_where_none_is_named(run, tmp_path):
    best = hm.load(run, member="return")
    who = best.config.member_names[best.member]
    seed, rate = best.config.member_tags()[best.member]
    assert who == f"training {best.member} ({rate}, {seed.replace('=', ' ')})"
    assert hm.load(run).member == best.member
    notes = []
    player, _ = find_player(str(run), report=notes.append)
    assert_same(player.policy, best.policy)
    assert notes == [
        f"{run}#{best.member} plays: {who}, because it has the highest return over the last tenth "
        f"of 4 trainings. Another one: {run}#0"
    ]
    other = (best.member + 1) % 4
    for begin, number in ((run, best.member), (f"{run}#{other}", other)):
        config = make_config("cpu", {**best.config.as_dict(), "seeds": 1, "vary": None})
        found, _ = initial_weights(
            replace(config, init=str(begin)), best.policy, report=notes.append
        )
        assert_same(found, hm.load(run, member=number).policy)
    assert notes[1:] == [f"--init {run}: {notes[0].partition(' plays: ')[2].partition('. ')[0]}"]


@pytest.mark.slow
def test_a_stopped_run_of_several_trainings_goes_on_bit_by_bit(run, tmp_path):
    stopped = copy_stopped_after(run, 2, tmp_path / "stopped")
    done("train", "--resume-run", stopped)
    assert_same_end(run, stopped)


@pytest.mark.slow
def test_a_member_that_is_not_there_and_other_trainings_are_refused(run):
    with pytest.raises(ConfigError, match="member is 4; expected 0 to 3"):
        hm.load(run, member=4)
    with pytest.raises(ConfigError, match="holds one training"):
        hm.load("pretrained", member=0)
    assert_refused(invoke("train", "--resume-run", run, "--seeds", 3), "--seeds 3", "all of its")


@pytest.mark.nightly
def test_an_agent_of_a_wandb_sweep_can_start_it_as_it_is(tmp_path, cache):
    # What `wandb agent` starts for `command: [hackmatrix-rl, train, ..., ${args}]`.
    args = ("--learning_rate=0.003", "--ent_coef=0.02", "--run_dir=trial")
    command = (sys.executable, "-m", "hackmatrix_rl", *CARTPOLE, "--tracker", "wandb", *args)
    environment = {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "PYTHONPATH": os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")]),
        "HACKMATRIX_TEST_TOLD": str(tmp_path),
        "WANDB_SWEEP_ID": "s1",
        "WANDB_RUN_ID": "r1",
    }
    status, told = finish(start(*command, cwd=tmp_path, **environment))
    assert status == 0, told
    inits = (tmp_path / "wandb-inits.jsonl").read_text().splitlines()
    assert {json.loads(each)["id"] for each in inits} == {"r1"}
    first = read_json_lines(tmp_path / "wandb-rows.jsonl")[0]
    assert first["train/learning_rate"] == pytest.approx(0.003)


def test_other_commands_that_train_refuse_several_trainings(here):
    varied = invoke("bench", "--preset", "debug", "--algorithm", "ppo", "--vary", "gamma=0.9,0.99")
    assert_refused(varied, "--vary gamma=0.9,0.99: bench does one training at a time")
    (here / "a.toml").write_text('algorithm = "ppo"\nseeds = 2\n')
    told = invoke("compare", "--preset", "debug", "a.toml", "a.toml")
    assert_refused(told, "--seeds 2: compare does one training at a time")


def test_trainings_are_of_each_value_with_all_seeds():
    config = make_config(
        "debug", {"env": "cartpole", "seeds": 2, "vary": "gamma=0.9,0.99,ent_coef=linear:0.1:0,0.1"}
    )
    each = [(one.seed, one.gamma, one.ent_coef) for one in config.member_configs()]
    ramp = "linear:0.1:0.0"
    assert each == [(0, 0.9, ramp), (1, 0.9, ramp), (0, 0.99, 0.1), (1, 0.99, 0.1)]
    assert config.members == 4


@pytest.mark.slow
def test_where_the_first_is_left_out_the_next_one_plays(tmp_path):
    rates = ("--vary", "learning_rate=1e38,1e-3", "--stop-unhealthy-members")
    watched = ("--stop-after-nonfinite", 2, "--run-dir", tmp_path / "run")
    told = done(*CARTPOLE, *rates, *watched).output
    assert "training 0 is left out" in told
    assert "The others continue, and training 1 plays." in told
    assert re.findall(r"learning_rate=\S+ +│ +(.*?) │", told) == ["0 of 1", "1"]
    assert "The trained player: training 1 (learning_rate=0.001, seed 0)" in told
    with pytest.warns(UserWarning, match="training 1 plays: training 0 went wrong"):
        loaded = hm.load(tmp_path / "run")
    assert loaded.member == hm.load(tmp_path / "run", member="length").member == 1
