"""States and runs whose arrays have the names of an earlier version continue in the same bits."""

import json
import re

import numpy as np
import pytest

from hackmatrix_rl.runs import compose, find_resumable_run
from hackmatrix_rl.runs._keys import run_keys, training_keys
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs._verify_resume import first_difference
from hackmatrix_rl.runs.checkpoints import load, read_arrays
from hackmatrix_rl.runs.config import config_from_dict
from hackmatrix_rl.training import Stored, arrays_to_store, random_keys, read_tree

from .kept import unpack

STATES = ("imitation", "ppo", "ppo-population", "pqn", "r2d2", "self-play", "supervised")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What was stored under the names of 0.1."""
    return unpack("names-1", tmp_path_factory.mktemp("kept"))


def today(name):
    """Today's name of an array of `names-1.zip`."""
    games = re.sub(r"^\.actors\.collector", ".collector_state.games", name)
    return re.sub(r"^\.actors", ".collector_state", games)


def assert_holds(state, stored):
    """The state has each stored array, under today's name, and no other."""
    stored = Stored(
        *({today(name): of[name] for name in of} for of in (stored.arrays, stored.keys))
    )
    arrays = {name: np.asarray(each) for name, each in arrays_to_store(state).items()}
    assert first_difference(stored, Stored(arrays, random_keys(state))) is None


@pytest.mark.parametrize("name", STATES)
def test_a_saved_state_is_loaded_in_its_bits(kept, name):
    config = config_from_dict(json.loads((kept / "states" / f"{name}.json").read_text()))
    trainer = compose(config, key=run_keys(config.seed)[0])
    file = kept / "states" / f"{name}.hmrl"
    trainer.load(file)
    assert_holds(trainer.state, read_tree(file, "training state"))


def test_a_run_of_several_trainings_resumes_with_its_games_and_its_buffer(kept):
    stopped = find_resumable_run(str(kept / "r2d2"))
    stored = read_arrays(stopped.checkpoint, "training")
    config = stopped.config({})
    trainer = compose(config, key=run_keys(config.seed)[0])
    assert restore_training(trainer, stopped.checkpoint, key=training_keys(config)) == ()
    assert_holds(trainer.state, stored)
    # Another buffer is reinitialized, and the games continue.
    config = stopped.config({"buffer_size": 256})
    trainer = compose(config, key=run_keys(config.seed)[0])
    (note,) = restore_training(trainer, stopped.checkpoint, key=training_keys(config))
    assert note == "the games continue; the buffer begins empty"


def test_a_player_of_such_a_run_is_its_policy(kept):
    loaded = load(kept / "r2d2")
    stored = read_arrays(loaded.folder, "policy").member(loaded.member)
    assert_holds(loaded.policy, stored)
