"""A run whose games begin at saved positions, gone on with."""

import shutil

import jax
import numpy as np
import pytest
from processes import assert_same_end

from hackmatrix_rl.env import GivenStates
from hackmatrix_rl.runs import (
    check_unchanged,
    find_resumable_run,
    make_run_folder,
    reopen_run_folder,
    run,
)
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._launch import launch
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Stored

pytestmark = pytest.mark.processes

KEY = jax.random.key(0)
SIZES = {"num_envs": 16, "num_steps": 64, "width": 8, "updates_per_dispatch": 1}
GAME = {"max_enemies": 4, "max_transmissions": 4, "history": 2, "max_steps": 60}
UPDATE = SIZES["num_envs"] * SIZES["num_steps"]


def settings(folder, **changes):
    constant = {"learning_rate": "constant:0.001"}  # one program, however long the run
    given = {"run_dir": str(folder), "frontier_share": 0.5, **constant, **SIZES, **GAME}
    return make_config("debug", {**given, **changes})


def composed(**changes):
    """A trainer that has not started, as a resume builds it."""
    return compose(settings("unused", **changes), key=KEY)


@pytest.fixture(scope="module")
def trainer():
    """One trainer for all runs: it compiles once."""
    return composed()


@pytest.fixture(scope="module")
def stopped(trainer, tmp_path_factory):
    """A run of two updates. Its checkpoint holds positions, and games that began there."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    config = settings(folder, total_timesteps=2 * UPDATE)
    assert run(config, trainer, make_run_folder(config)).exit_code == 0
    return folder


def stored(folder, name):
    arrays = read_arrays(find_checkpoint(folder), "training").arrays
    (found,) = [array for path, array in arrays.items() if path.endswith(name)]
    return found


def test_it_ends_in_the_same_bits_as_a_run_that_was_never_stopped(trainer, stopped, tmp_path):
    assert stored(stopped, ".bank.filled").any()
    assert not stored(stopped, ".is_new_game").all()
    straight = settings(tmp_path / "straight", total_timesteps=4 * UPDATE)
    run(straight, trainer, make_run_folder(straight))
    shutil.copytree(stopped, tmp_path / "resumed")
    found = find_resumable_run(str(tmp_path / "resumed"))
    config = found.config({"total_timesteps": 4 * UPDATE})
    folder = reopen_run_folder(config, found.path, found.metadata["run"])
    run(config, trainer, folder, resume=found.checkpoint)
    assert_same_end(tmp_path / "straight", tmp_path / "resumed")


def test_positions_that_an_earlier_version_saved_are_restored(trainer, stopped):
    stored = read_arrays(find_checkpoint(stopped), "training")
    bank = ".collector_state.environment.bank"
    earlier = {
        name.replace(f"{bank}.games", f"{bank}.saved.game"): array
        for name, array in stored.arrays.items()
    }
    earlier[f"{bank}.saved.mask"] = earlier[f"{bank}.saved.observation.cells"] = np.zeros(2)
    state = trainer.abstract_state()
    assert earlier.keys() != stored.arrays.keys()
    filled = Stored(earlier, stored.keys).fill(state).collector_state.environment.bank
    stage = stored.arrays[f"{bank}.games.position.stage"]
    np.testing.assert_array_equal(filled.games.position.stage, stage)


@pytest.mark.parametrize(
    ("name", "asked"), [("history", 8), ("max_enemies", 5), ("max_transmissions", 5)]
)
def test_a_bank_of_another_game_is_refused_by_name(stopped, name, asked):
    flag, was = "--" + name.replace("_", "-"), getattr(settings("unused"), name)
    with (
        pytest.raises(
            ConfigError,
            match=f"{flag} {asked}: .* --frontier-share 0.5 saved are of games with {flag} {was}. "
            f"Use {flag} {was}, --frontier-share 0, .* --init {stopped}",
        ),
        launch(resume_run=str(stopped), changes={name: asked}),
    ):
        pass


LOST = (
    "the games' number, sizes, reward or starts changed: new games start; the bank of start states "
    "is lost"
)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, None),
        ({"frontier_share": 0.25}, None),
        ({"num_envs": 32}, LOST),
        ({"reward": "kills=0"}, LOST),
        ({"frontier_share": 0, "history": 8}, LOST),
        ({"start_stages": "7:8", "history": 8}, LOST),
    ],
)
def test_what_may_change_says_what_becomes_of_the_bank(stopped, changes, note):
    found = find_resumable_run(str(stopped))
    check_unchanged(found.path, found.config({}), changes)
    changed = composed(**changes)
    assert restore_training(changed, found.checkpoint, key=KEY) == ((note,) if note else ())
    environment = changed.algorithm.environment
    if environment == changed.environment:  # it has no bank
        return
    bank = changed.state.collector_state.environment.bank
    if isinstance(environment.starts, GivenStates):
        np.testing.assert_array_equal(bank, 0)
    else:
        kept = np.zeros_like(bank.filled) if note else stored(stopped, ".bank.filled")
        np.testing.assert_array_equal(bank.filled, kept)
