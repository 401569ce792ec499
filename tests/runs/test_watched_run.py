"""A run that is watched, on an environment that compiles quickly."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
from displays import Notes

from hackmatrix_rl.agent import GAE, PPOLoss
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import make_run_folder, run
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import ExitCode
from hackmatrix_rl.training import Trainer, checked


class Poisoned(Trainer):
    """Its statistics of the value turn into NaN at one update, and stay so."""

    at: int | None = None

    def dispatch(self, updates):
        if self.at is not None and int(self.state.update) == self.at:
            scale = jax.tree.map(
                lambda leaf: jnp.full_like(leaf, jnp.nan) if eqx.is_inexact_array(leaf) else leaf,
                self.state.learner.value_scale,
            )
            self.state = eqx.tree_at(lambda state: state.learner.value_scale, self.state, scale)
        return super().dispatch(updates)


def watched_run(folder, *, poison_at=None, **settings):
    config = make_config("debug", {"run_dir": str(folder), "save_interval": 2, **settings})
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    modules = {}
    if config.debug is not None:
        modules = dict(zip(("loss", "gae"), checked(PPOLoss(), GAE(), config.debug), strict=True))
    algorithm = PPO(
        environment,
        policy,
        **modules,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        num_minibatches=config.minibatches,
    )
    trainer = Poisoned(algorithm, updates_per_dispatch=config.updates_per_dispatch)
    trainer.at = poison_at
    display = Notes()
    result = run(config, trainer, make_run_folder(config), displays=[display])
    return result, display.notes


def checkpoints(folder):
    return sorted(int(p.name) for p in (folder / "checkpoints").iterdir() if p.name.isdigit())


def test_when_nothing_is_finite_any_more_the_run_stops_and_the_last_good_checkpoint_stays(tmp_path):
    long = {"total_timesteps": 16 * 256}
    result, notes = watched_run(tmp_path, poison_at=4, stop_after_nonfinite=3, **long)
    assert result.exit_code is ExitCode.UNHEALTHY
    assert result.env_steps == 8 * 256, "two dispatches of two updates after the fourth"
    assert checkpoints(tmp_path) == [0, 2, 4]
    assert any("Stopping; the last good checkpoint is kept" in note for note in notes)


def test_a_run_that_ends_before_the_stop_does_not_save_what_is_not_finite_either(tmp_path):
    result, _ = watched_run(tmp_path, poison_at=6, stop_after_nonfinite=None)
    assert result.exit_code is ExitCode.UNHEALTHY
    assert checkpoints(tmp_path) == [2, 4, 6]


def test_a_debugged_run_stops_at_the_first_nan_and_names_it(tmp_path):
    result, notes = watched_run(tmp_path, poison_at=4, debug="nans")
    assert result.exit_code is ExitCode.UNHEALTHY
    assert result.env_steps == 6 * 256
    assert any(n.startswith("--debug, update 6: NaN in RunningScale") for n in notes), notes
    assert checkpoints(tmp_path) == [0, 2, 4]


def test_a_run_with_everything_on_leaves_versions_events_and_a_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    result, notes = watched_run(
        tmp_path, tracker="tensorboard,wandb", wandb_mode="offline", profile=2
    )
    assert result.exit_code is ExitCode.DONE
    assert len(json.loads((tmp_path / "versions.json").read_text())["starts"]) == 1
    assert list((tmp_path / "tensorboard").iterdir())
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert any(note.startswith("profiler trace of 2 updates") for note in notes)
    for row in read_json_lines(tmp_path / "metrics.jsonl"):
        assert row["process_memory_peak_bytes"] > 0
        assert row["cpu_utilization"] > 0
