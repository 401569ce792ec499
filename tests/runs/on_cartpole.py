"""Runs on CartPole in this process, whose trainers compile once for all of them."""

import functools
from types import SimpleNamespace

import jax

from hackmatrix_rl.runs import find_resumable_run, make_run_folder, reopen_run_folder, run
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays
from hackmatrix_rl.runs.config import make_config

from .cartpole_command import compose

TOML = """
env = "cartpole"
algorithm = "ppo"
num_envs = 8
num_steps = 8
num_minibatches = 2
update_epochs = 1
total_timesteps = 512
updates_per_dispatch = 1
width = 8
depth = 1
mesh = "data=1"
"""
"""A small training as a file of settings."""
SIZES = ("num_envs", "num_steps", "minibatches", "update_epochs", "updates_per_dispatch")


def trainer_of(config, mesh="data=1", *, other=False):
    """A trainer for a config; `other` is another one of the same sizes."""
    return _composed(tuple(getattr(config, name) for name in SIZES), mesh, other)


@functools.cache
def _composed(sizes, mesh, other):
    given = SimpleNamespace(**dict(zip(SIZES, sizes, strict=True)), mesh=mesh)
    return compose(given, key=jax.random.key(0))


def settings(folder, **changes):
    return make_config("debug", {"run_dir": str(folder / "run"), **changes})


def train(config, **given):
    """A new run."""
    return run(config, trainer_of(config), make_run_folder(config), **given)


def go_on(folder, *, displays=(), **changes):
    """The run in another trainer, from its newest checkpoint."""
    stopped = find_resumable_run(str(folder / "run"))
    config = stopped.config(changes)
    reopened = reopen_run_folder(config, stopped.path, stopped.metadata["run"])
    stopped.set_damaged_aside()
    given = {"resume": stopped.checkpoint, "displays": displays}
    return run(config, trainer_of(config, other=True), reopened, **given)


def final(folder):
    """What the run's newest checkpoint holds."""
    return read_arrays(find_checkpoint(folder / "run"), "training")
