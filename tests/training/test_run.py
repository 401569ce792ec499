"""A run, on an environment that compiles quickly."""

import signal

import jax

from hackmatrix_rl.agent import MLPActorCritic
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.checkpoints import find_checkpoint, read_metadata, restore
from hackmatrix_rl.training.presets import make_config
from hackmatrix_rl.training.run import run
from hackmatrix_rl.training.run_folder import make_run_folder
from hackmatrix_rl.training.sinks import Sink


def trainer_of(config):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    return Trainer(
        environment,
        policy,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        num_minibatches=config.num_minibatches,
        updates_per_dispatch=config.updates_per_dispatch,
    )


class CtrlC(Sink):
    """Presses Ctrl-C when the first metrics arrive."""

    def __init__(self):
        self.notes = []

    def write(self, row):
        if row["updates"] == 2:
            signal.raise_signal(signal.SIGINT)

    def note(self, message):
        self.notes.append(message)

    def close(self):
        pass


def test_ctrl_c_saves_and_ends_cleanly(tmp_path):
    config = make_config("debug", {"run_dir": str(tmp_path / "run"), "eval_episodes": 0})
    trainer = trainer_of(config)
    folder = make_run_folder(config)
    display = CtrlC()
    before = signal.getsignal(signal.SIGINT)
    result = run(config, trainer, folder, displays=[display])
    assert result.interrupted
    assert result.env_steps == 512
    assert signal.getsignal(signal.SIGINT) is before
    assert read_metadata(find_checkpoint(tmp_path / "run"))["counters"]["env_steps"] == 512
    assert folder.curve.exists()
    assert "stopped at 512 steps; saved" in display.notes


def test_checkpoints_are_written_as_time_passes(tmp_path):
    config = make_config("debug", {"run_dir": str(tmp_path / "run"), "save_interval_minutes": 1.0})
    trainer = trainer_of(config)
    ticks = iter(range(0, 10_000, 50))  # every look at the clock is 50 seconds later
    run(config, trainer, make_run_folder(config), clock=lambda: float(next(ticks)))
    found = sorted(int(path.name) for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert found == [4, 8]


def test_what_is_saved_at_the_end_is_what_was_trained(tmp_path):
    config = make_config("debug", {"run_dir": str(tmp_path / "run")})
    trainer = trainer_of(config)
    result = run(config, trainer, make_run_folder(config))
    saved = restore(find_checkpoint(tmp_path / "run"), "training", trainer.state)
    assert int(saved.env_steps) == result.env_steps == config.total_timesteps
    for trained, stored in zip(
        jax.tree.leaves(result.policy), jax.tree.leaves(saved.learner.policy), strict=True
    ):
        assert (trained == stored).all()
