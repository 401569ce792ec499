"""Trainings whose episodes start in chosen states."""

from dataclasses import replace

import jax
import pytest
from env.corridor import CORRIDOR, EASY_FIRST, reached
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear
from hackmatrix_rl.env import BLOCK, frontier
from hackmatrix_rl.runs.config import make_config

KEY = jax.random.key(0)
SIZES = {"num_envs": 2 * BLOCK, "num_steps": 8, "num_minibatches": 2, "update_epochs": 1}
ARCHIVE = hm.Archive(reached)
CURRICULUM = hm.GivenStates(EASY_FIRST, Linear(0.0, 1.0, over=60))
REPLAY = {"sequence_length": 4, "sequence_batch_size": 16, "buffer_size": 512}


def ppo(environment, **changes):
    policy = hm.MLPActorCritic(environment.spec, width=8, depth=1, key=KEY)
    return hm.Trainer(hm.PPO(environment, policy, **{**SIZES, **changes}))


def pqn(environment, **changes):
    policy = hm.MLPActorCritic(environment.spec, width=8, depth=1, key=KEY)
    return hm.Trainer(hm.PQN(environment, policy, **{**SIZES, **changes}))


def r2d2(environment, **changes):
    policy = hm.GRUActorCritic(environment.spec, width=8, key=KEY)
    sizes = {"num_envs": 2 * BLOCK, "train_freq": 8, **REPLAY}
    return hm.Trainer(hm.R2D2(environment, policy, **{**sizes, **changes}))


@pytest.mark.parametrize(("make", "starts"), [(ppo, ARCHIVE), (pqn, ARCHIVE), (r2d2, CURRICULUM)])
def test_a_training_continues_in_the_same_bits(make, starts, tmp_path):
    environment = hm.StartStates(CORRIDOR, starts, 0.5)
    straight, again = make(environment), make(environment)
    straight.start(KEY)
    straight.dispatch(3)
    straight.save(tmp_path / "training")
    collector = straight.state.collector_state
    games = getattr(collector, "games", collector).environment
    assert not games.is_new_game.all()
    straight.dispatch(2)
    again.load(tmp_path / "training")
    again.dispatch(2)
    assert_same(again.state, straight.state)
    assert again.environment is CORRIDOR


@pytest.mark.parametrize("make", [ppo, pqn, r2d2])
def test_a_device_without_whole_blocks_is_refused(make):
    environment = hm.StartStates(CORRIDOR, ARCHIVE, 0.5)
    with pytest.raises(
        ValueError, match=r"num_envs 8 .* blocks of 8 .* on 2 devices; use num_envs=16"
    ):
        make(environment, num_envs=8, mesh="data=2")


def test_start_states_do_not_depend_on_devices():
    environment = hm.StartStates(CORRIDOR, CURRICULUM, 0.5)
    found = []
    for devices in ("data=1", "data=2"):
        trainer = ppo(environment, mesh=devices)
        trainer.start(KEY)
        trainer.dispatch(1)
        found.append(trainer.state.collector_state)
    assert_same(*found)


def test_the_flags_choose_the_start_states():
    given = {"frontier_share": 0.5, "frontier": "points", "without_undo_share": 0.5}
    config = make_config("debug", given)
    inner = replace(config.environment(), without_undo_share=0.5)
    assert config._train_environment() == frontier(inner, 0.5, by="points")
