"""A run that was stopped, gone on with: the same run as one that never was."""

import json
import os
import shutil
import time

import jax
import numpy as np
import pytest

from hackmatrix_rl.agent.networks import GRUActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import find_resumable_run, make_run_folder, reopen_run_folder, run
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs._verify_resume import first_difference
from hackmatrix_rl.runs._wall_time import of_row
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays, read_metadata
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Stored, Trainer, arrays_to_store, random_keys

from .on_cartpole import final, go_on, settings, train, trainer_of

KEY = jax.random.key(7)


def test_a_resumed_run_is_bitwise_the_run_that_was_never_stopped(tmp_path):
    train(settings(tmp_path / "straight", total_timesteps=2048))
    train(settings(tmp_path / "stopped", total_timesteps=768))
    go_on(tmp_path / "stopped", total_timesteps=2048)
    assert first_difference(final(tmp_path / "straight"), final(tmp_path / "stopped")) is None
    assert read_metadata(find_checkpoint(tmp_path / "stopped" / "run"))["update"] == 8
    # A finished run that is resumed is finished.
    assert go_on(tmp_path / "stopped").exit_code == 0
    assert first_difference(final(tmp_path / "straight"), final(tmp_path / "stopped")) is None


def begin(folder, **changes):
    """What a run leaves that is killed before its first checkpoint: its folder, half a save."""
    config = settings(folder, **changes)
    made = make_run_folder(config)
    made.metrics.touch()
    (made.checkpoints / "0" / "policy").mkdir(parents=True)
    return made


def test_a_run_that_ended_before_its_first_checkpoint_starts_anew(tmp_path):
    train(settings(tmp_path / "straight", total_timesteps=768))
    begun = begin(tmp_path / "stopped", total_timesteps=512)
    stopped = find_resumable_run(str(begun.path))
    assert (stopped.checkpoint, stopped.update) == (None, 0)
    assert stopped.metadata["run"]["wandb_id"] == begun.wandb_id
    assert stopped.notes[-1] == f"{begun.path}: has no checkpoint yet; the run starts over"
    go_on(tmp_path / "stopped", total_timesteps=768)
    assert first_difference(final(tmp_path / "straight"), final(tmp_path / "stopped")) is None
    names = {path.name for path in begun.checkpoints.iterdir()}
    assert names == {"0", "0.damaged", "3"}
    assert "are lost" not in begun.log.read_text()


def test_a_checkpoint_of_the_start_is_that_of_a_run_that_never_stopped(tmp_path):
    train(settings(tmp_path, total_timesteps=512, save_interval_minutes=None))
    before = final(tmp_path)
    (find_checkpoint(tmp_path / "run") / "manifest.json").unlink()
    stopped = find_resumable_run(str(tmp_path / "run"))
    assert (stopped.checkpoint.name, stopped.update) == ("0", 0)
    go_on(tmp_path)
    assert first_difference(before, final(tmp_path)) is None
    assert "are lost" not in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("lost", ["rows", "later", "settings"])
def test_a_run_that_lost_its_checkpoints_does_not_start_anew(tmp_path, lost):
    begun = begin(tmp_path)
    if lost == "rows":
        begun.metrics.write_text('{"updates": 2}\n')
    elif lost == "later":
        (begun.checkpoints / "40").mkdir()
    else:
        begun.config.write_text("{")
    with pytest.raises(ConfigError, match=r"no checkpoint to resume from in .*0: incomplete"):
        find_resumable_run(str(begun.path))


def test_a_damaged_checkpoint_is_set_aside_and_the_rows_after_the_one_before_are_replaced(tmp_path):
    train(settings(tmp_path, total_timesteps=2048, save_interval=6, keep=5))
    newest = find_checkpoint(tmp_path / "run")
    (newest / "manifest.json").unlink()  # as if it had been killed while writing this
    file = tmp_path / "run" / "metrics.jsonl"
    *_, kept, later = (sum(of_row(row).values()) for row in read_json_lines(file))
    os.utime(file, times=(time.time() - 3600,) * 2)
    stopped = find_resumable_run(str(tmp_path / "run"))
    assert stopped.update == 6
    assert "incomplete" in stopped.notes[0]
    go_on(tmp_path)
    names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert names == {"0", "6", "8", "8.damaged"}
    rows = read_json_lines(file)
    assert [row["updates"] for row in rows] == [2, 4, 6, 8]
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "resumed at update 6, 1,536 steps" in log
    times = of_row(rows[-1])
    assert times["lost"] == pytest.approx(later - kept)
    assert 3600 <= times["wait"] < 3660
    assert times["train"] > sum(row["seconds"] for row in rows) - 1e-6
    assert "time 1:0" in log
    assert "waiting for a restart" in log


def test_a_checkpoint_plays_the_average_of_the_weights(tmp_path):
    config = settings(tmp_path, total_timesteps=1024, ema=0.9)
    network = GRUActorCritic(CartPole().spec, width=8, key=KEY)
    algorithm = PPO(
        CartPole(), network, num_envs=32, num_steps=8, num_minibatches=2, ema=config.ema
    )
    run(config, Trainer(algorithm), make_run_folder(config))
    checkpoint = find_checkpoint(tmp_path / "run")
    played = read_arrays(checkpoint, "policy")
    training = read_arrays(checkpoint, "training")
    average, learned = (training.under(f".learner.{name}") for name in ("average", "policy"))
    assert first_difference(played, average) is None
    assert first_difference(played, learned) is not None
    with pytest.raises(ConfigError, match=r"--ema none: .*--ema 0\.9, and the average is part"):
        config.check_changes("mine", {"ema": None})
    with pytest.raises(ConfigError, match=r"--optimizer lion: .*--optimizer adam, and the opt"):
        config.check_changes("mine", {"optimizer": "lion"})


def test_another_number_of_games_keeps_what_was_learned_and_begins_fresh_games(tmp_path):
    train(settings(tmp_path, total_timesteps=512))
    before = final(tmp_path)
    go_on(tmp_path, total_timesteps=512, num_envs=32)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "the games' number, sizes, reward or starts changed: new games start" in log
    go_on(tmp_path, total_timesteps=1024, num_envs=32)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["num_envs"] == 32
    after = final(tmp_path)
    assert after.arrays[".env_steps.low"] == 1024
    assert after.arrays[".collector_state.mask"].shape[0] == 32
    assert before.arrays[".collector_state.mask"].shape[0] == 16


def test_a_run_is_found_by_its_name_and_by_its_wandb_id(here):
    train(make_config("debug", {"total_timesteps": 256, "run_dir": "runs/mine"}))
    wandb_id = json.loads((here / "runs" / "mine" / "run.json").read_text())["wandb_id"]
    for name in ("mine", "runs/mine", str(here / "runs" / "mine"), wandb_id):
        assert find_resumable_run(name).path.resolve() == here / "runs" / "mine"
    with pytest.raises(ConfigError, match="--resume-run other: no such run"):
        find_resumable_run("other")


def test_a_run_whose_folder_is_gone_is_found_by_its_checkpoints(here):
    far = {"total_timesteps": 256, "run_dir": "runs/lost", "checkpoint_dir": "far"}
    train(make_config("debug", far))
    shutil.rmtree(here / "runs" / "lost")
    stopped = find_resumable_run("lost", "far")
    assert str(stopped.path) == "runs/lost"
    folder = reopen_run_folder(stopped.config({}), stopped.path, stopped.metadata["run"])
    assert folder.wandb_id == stopped.metadata["run"]["wandb_id"]
    assert folder.checkpoints.name == "far"


def without(stored, group):
    """What is stored, with a group of it read back as zeros."""
    arrays = {
        name: np.zeros_like(array) if name.startswith(group) else array
        for name, array in stored.arrays.items()
    }
    return Stored(arrays, stored.keys)


GROUPS = (
    *(f".learner.{name}" for name in ("policy", "optimizer_state", "value_scale")),
    *(f".collector_state.{name}" for name in ("environment", "observation", "mask", "carry")),
    *(".collector_state.keys", ".collector_state.step", ".key", ".update", ".env_steps"),
)


@pytest.fixture(scope="module")
def halfway():
    """A trainer, its state after two updates, and that after four."""
    trainer = trainer_of(make_config("debug", {"updates_per_dispatch": 2}))
    trainer.start(KEY)
    trainer.dispatch(2)
    middle = stored_from(trainer.state)
    trainer.dispatch(2)
    return trainer, middle, stored_from(trainer.state)


def stored_from(state):
    arrays = {name: np.array(each) for name, each in arrays_to_store(state).items()}
    return Stored(arrays, random_keys(state))


def test_everything_that_is_stored_belongs_to_a_group(halfway):
    _, middle, _ = halfway
    rest = [name for name in middle.arrays if not name.startswith(GROUPS)]
    # Counted and never looked at: the number of steps that were left out.
    assert rest == [".learner.skipped"]


@pytest.mark.parametrize("group", [None, *GROUPS])
def test_a_group_left_out_of_the_checkpoint_shows(halfway, group):
    trainer, middle, end = halfway
    stored = middle if group is None else without(middle, group)
    trainer.state = stored.fill(trainer.state)
    trainer.dispatch(2)
    difference = first_difference(end, stored_from(trainer.state))
    if group is None:
        assert difference is None
    else:
        assert difference is not None


def test_what_may_be_changed_on_resume_and_what_may_not(tmp_path):
    train(settings(tmp_path, total_timesteps=512))
    checkpoint, stored = find_checkpoint(tmp_path / "run"), final(tmp_path)
    # Fresh games are not those that the run began with.
    config = settings(tmp_path, num_envs=32)
    trainer, first = trainer_of(config), trainer_of(config, other=True)
    notes = restore_training(trainer, checkpoint, key=KEY)
    first.start(KEY)
    assert notes == ("the games' number, sizes, reward or starts changed: new games start",)
    keys = [jax.random.key_data(t.state.collector_state.keys) for t in (trainer, first)]
    assert not np.array_equal(*keys)
    # Another number of steps goes on with the same games, another mesh with the parameters, too.
    trainer = trainer_of(settings(tmp_path, num_steps=32))
    assert restore_training(trainer, checkpoint, key=KEY) == ()
    assert stored.mismatch(trainer.state) is None
    assert int(trainer.state.collector_state.step) == int(stored.arrays[".collector_state.step"])
    trainer = trainer_of(settings(tmp_path), "data=2,fsdp=2")
    assert restore_training(trainer, checkpoint, key=KEY) == ()
    assert first_difference(stored, stored_from(trainer.state)) is None
    assert len(trainer.state.collector_state.mask.sharding.device_set) == 4
    trainer.dispatch(1)
    # Another network is refused by the name of its array.
    wider = GRUActorCritic(CartPole().spec, width=16, key=jax.random.key(0))
    trainer = Trainer(PPO(CartPole(), wider, num_envs=16, num_steps=16))
    with pytest.raises(ConfigError, match=r"in learner, \.policy.* in the checkpoint, .* here"):
        restore_training(trainer, checkpoint, key=KEY)
