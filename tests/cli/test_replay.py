"""`hackmatrix-rl train --algorithm r2d2`, as users run it."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from processes import assert_same_end, copy_stopped_after

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import ValueRescaling
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs import check_unchanged, compose, find_player
from hackmatrix_rl.runs._keys import evaluation_key
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system.errors import ConfigError

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.search

SMALL = (
    *("--preset", "debug", "--algorithm", "r2d2", "--num-envs", 8, "--width", 8),
    *("--sequence-batch-size", 8, "--buffer-size", 256, "--max-enemies", 4),
    *("--max-transmissions", 4, "--history", 1, "--max-steps", 30, "--updates-per-dispatch", 1),
    *("--save-interval", 4, "--keep", 10, "--total-timesteps", 384, "--eval-episodes", 4),
)
UPDATES = 12
"""384 steps of 8 games, 4 steps each."""


def train(run, *flags):
    told = done("train", *SMALL, *flags, "--run-dir", run)
    return told.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with evaluations, and what it printed."""
    run = tmp_path_factory.mktemp("trained") / "run"
    return run, train(run, "--eval-interval", 6, "--eval-interval-episodes", 8)


def test_a_run_trains_evaluates_and_draws_its_curve(trained):
    run, printed = trained
    rows = read_json_lines(run / "metrics.jsonl")
    assert len(rows) == UPDATES
    assert all(np.isfinite(row["q_loss"]) for row in rows[2:])
    assert f"update {UPDATES}: evaluated on 8 games" in printed
    assert "a gradient step on 8 sequences of 4 actions" in printed
    assert "trained to the end at 384 steps; saved" in printed
    assert (run / "learning_curve.png").exists()
    assert set(json.loads((run / "summary.json").read_text())) == {"trained", "random", "runner"}


def test_evaluations_play_by_the_largest_q_value(trained):
    run, _ = trained
    loaded = hm.load(str(run))
    assert loaded.greedy
    rows = read_json_lines(run / "metrics.jsonl")
    agent = loaded.agent()
    assert agent.greedy
    assert isinstance(agent.value_scale, ValueRescaling)
    again = hm.evaluate(agent, loaded.environment, episodes=8, key=evaluation_key(loaded.config))
    assert rows[-1]["eval/return"] == pytest.approx(again.estimate("return").mean, abs=1e-5)
    drawn = hm.evaluate(
        PolicyAgent(loaded.policy),
        loaded.environment,
        episodes=8,
        key=evaluation_key(loaded.config),
    )
    assert drawn.estimate("return").mean != pytest.approx(again.estimate("return").mean, abs=1e-5)


def test_a_trained_agent_is_found_as_a_greedy_player_and_does_not_search(trained):
    run, _ = trained
    player, _ = find_player(str(run))
    assert isinstance(player, PolicyAgent)
    assert player.greedy
    assert_refused(invoke("eval", run, "--search", 4), "learned Q-values", "Leave the search out")
    assert_refused(invoke("eval", f"search({run}, 30)"), "learned Q-values")


def test_weights_start_only_a_training_of_the_same_kind(trained):
    run, _ = trained
    by_ppo = invoke("train", "--preset", "debug", "--width", 8, "--init", run, "--dry-run")
    assert_refused(by_ppo, f"--init {run}: trained by --algorithm r2d2")
    refused = invoke("train", *SMALL, "--init", "pretrained", "--dry-run")
    assert_refused(refused, "by --algorithm ppo, and this training is by --algorithm r2d2")
    refused = invoke("train", *SMALL, "--no-rescale-values", "--init", run, "--dry-run")
    said = "trained with --rescale-values, but this training has --no-rescale-values"
    assert_refused(refused, f"--init {run}: {said}")
    again = replace(hm.load(str(run)).config, init=str(run), run_dir=None)
    begun = compose(again, read_init=True)
    assert eqx.tree_equal(begun.policy, hm.load(str(run)).policy)


CHANGED = {
    ("--no-dueling",): "--no-dueling: the run {run} was trained with --dueling",
    ("--no-rescale-values",): (
        "--no-rescale-values: the run {run} was trained with --rescale-values"
    ),
    ("--algorithm", "ppo"): "--algorithm ppo: the run {run} is by --algorithm r2d2, and a run",
}


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["", "dry run"])
@pytest.mark.parametrize("flags", CHANGED, ids=" ".join)
def test_a_resumed_run_keeps_what_its_outputs_mean(trained, flags, more, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.training.Trainer.trace", None)
    run, _ = trained
    refused = invoke("train", "--resume-run", run, "--total-timesteps", 512, *flags, *more)
    assert_refused(refused, CHANGED[flags].format(run=run), "begin a new run")


@pytest.mark.parametrize("name", ["dueling", "rescale_values"])
@pytest.mark.parametrize("before", [True, False])
def test_both_directions_are_refused_and_what_stays_is_not(tmp_path, name, before):
    stored = make_config("debug", {"algorithm": "r2d2", name: before})
    with pytest.raises(ConfigError, match="its Q-values depend on it"):
        check_unchanged(tmp_path, stored, {name: not before})
    check_unchanged(tmp_path, stored, {name: before, "gamma": 0.5, "algorithm": "r2d2"})


def test_a_resumed_run_ends_in_the_same_bits_or_says_what_it_lacks(trained, tmp_path):
    straight, _ = trained
    run = copy_stopped_after(straight, 4, tmp_path / "run")
    done("train", "--resume-run", run)
    assert_same_end(straight, run)


def test_the_buffer_can_be_left_out_of_checkpoints(trained, tmp_path):
    whole, _ = trained
    run = tmp_path / "run"
    train(run, "--no-keep-buffer", "--eval-interval", 6, "--eval-interval-episodes", 8)
    kept = read_arrays(find_checkpoint(run), "training").arrays
    everything = read_arrays(find_checkpoint(whole), "training").arrays
    assert kept.keys() < everything.keys()
    assert {name for name in everything if name.startswith(".collector_state.buffer")} == (
        everything.keys() - kept.keys()
    )
    assert all(np.array_equal(kept[name], everything[name]) for name in kept)
    again = done("train", "--resume-run", copy_stopped_after(run, 8, tmp_path / "stopped"))
    assert "the games continue; the buffer begins empty" in again.stdout
    assert "trained to the end at 384 steps" in again.stdout


GO_ON = "the games continue; the buffer begins empty"
NEW_GAMES = "new games start, and the buffer begins empty"
EMPTIED = {
    "num_envs": ({"num_envs": 16}, NEW_GAMES),
    "train_freq": ({"train_freq": 2}, GO_ON),
    "prioritized": ({"prioritized": True}, GO_ON),
    "buffer_size": ({"buffer_size": 512}, GO_ON),
    "reward of other terms": ({"reward": "kills=5"}, NEW_GAMES),
    "nothing": ({}, None),
    "another mesh": ({"mesh": "data=2"}, None),
}


@pytest.mark.parametrize("change", EMPTIED)
def test_what_empties_the_buffer_is_told(trained, change):
    """Not trained on: what a resumed run begins with."""
    run, _ = trained
    changes, note = EMPTIED[change]
    config = replace(hm.load(str(run)).config, run_dir=None, **changes)
    trainer = compose(config)
    other_rewards = "reward" in changes
    notes = restore_training(
        trainer, find_checkpoint(run), key=jax.random.key(0), other_rewards=other_rewards
    )
    filled = int(trainer.state.collector_state.buffer.filled)
    if note is None:
        assert notes == ()
        assert filled == 32
    else:
        assert notes[0].endswith(note)
        assert filled == 0
    assert int(trainer.state.update) == UPDATES


@pytest.mark.nightly
def test_other_weights_of_the_same_rewards_empty_the_buffer(trained, tmp_path):
    """No array changes its shape. The buffer holds rewards by the old weights."""
    run = tmp_path / "run"
    flags = ("--total-timesteps", 128, "--learning-starts", 0, "--eval-episodes", 0)
    train(run, *flags, "--reward", "kills=0")
    again = done("train", "--resume-run", run, "--total-timesteps", 160, "--reward", "kills=5")
    assert "--reward changed: it was kills=0, and is kills=5 from here on" in again.stdout
    assert GO_ON in again.stdout
    stored = read_arrays(find_checkpoint(run), "training").arrays
    assert int(stored[".collector_state.buffer.filled"]) == 4
