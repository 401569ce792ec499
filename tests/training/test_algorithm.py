"""Runs and checkpoints use only the interface of an algorithm."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from displays import Notes, interrupt_at, stopped_and_resumed
from own_algorithm import Reinforce, ReinforceState

from hackmatrix_rl.agent import Batch, CollectorState, RolloutCollector
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.r2d2 import SquareRootScale, ValueRescaling
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import estimate_memory, make_run_folder, run
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import ExitCode
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.training import (
    AlgorithmState,
    Constant,
    Counter,
    Learner,
    Population,
    Stored,
    Trainer,
    TrainState,
    arrays_to_store,
)
from hackmatrix_rl.view.replays import Replay

from .states import assert_same

CONFIG = make_config(
    "debug", {"num_envs": 8, "num_steps": 16, "total_timesteps": 8 * 16 * 6, "save_interval": 2}
)


class OwnState(AlgorithmState):
    """A state with a field whose name was once that of a built-in state's."""

    learner: Learner
    actors: CollectorState
    update: Any
    env_steps: Counter


class Own(Reinforce):
    reinit_fields = ("actors",)

    def init(self, key, policy):
        return OwnState(*vars(super().init(key, policy)).values())

    def __call__(self, state):
        after, report = super().__call__(ReinforceState(*vars(state).values()))
        return OwnState(*vars(after).values()), report


def reinforce(num_envs=8, kind=Own):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, depth=1, key=jax.random.key(0))
    rate = Constant(0.02)
    algorithm = kind(environment, policy, RolloutCollector(16), num_envs, learning_rate=rate)
    return Trainer(algorithm, updates_per_dispatch=2)


def folder_of(path):
    return make_run_folder(replace(CONFIG, run_dir=str(path)))


def test_a_run_of_another_algorithm_stops_resumes_and_ends_in_the_same_bits(tmp_path):
    straight = reinforce()
    ended = run(CONFIG, straight, folder_of(tmp_path / "straight"))
    assert (ended.exit_code, ended.env_steps) == (ExitCode.DONE, 768)
    resumed, folder, notes = stopped_and_resumed(CONFIG, reinforce, tmp_path / "stopped")
    assert any("resumed at update 2" in note for note in notes)
    assert_same(resumed.state, straight.state)
    rows = [each["updates"] for each in read_json_lines(folder.metrics)]
    assert rows == [2, 4, 6]
    names = read_arrays(find_checkpoint(folder.path), "training").arrays
    assert any(name.startswith(".learner.optimizer_state") for name in names)
    assert any(name.startswith(".actors.mask") for name in names)


def test_it_may_have_the_methods_that_only_some_have():
    class Mine(Reinforce):
        def working_bytes(self, state):
            return 123

        def updates_until_due(self, state):
            return 1

    trainer = reinforce(kind=Mine)
    assert estimate_memory(trainer).working == 123
    assert estimate_memory(Trainer(Population(trainer.algorithm, 2))).working == 246
    trained = trainer.train(2 * trainer.batch_size, key=jax.random.key(1))
    assert [metrics.dispatched for metrics in trained] == [1, 1]


def test_former_names_of_what_own_code_calls_work_for_one_version():
    assert int(Counter.of(2**40)) == 2**40
    assert int(Counter()) == 0
    assert (Batch.of, Chance.of, Replay.of) == (
        *(Batch.from_rollout, Chance.from_key, Replay.from_match),
    )
    assert SquareRootScale is ValueRescaling
    state = TrainState.first(jax.random.key(0), learner=None, collector_state=3)
    with pytest.warns(DeprecationWarning, match="actors is now collector_state;"):
        assert state.actors == 3


class Fields(eqx.Module):
    """A state with some fields, whose parts have one array."""

    actors: Any = None
    collector_state: Any = None


class Part(eqx.Module):
    mask: Any = None
    collector: Any = None
    games: Any = None


def stored(**fields):
    return Stored(arrays_to_store(Fields(**fields)), {})


A, B, C = (jnp.full(2, number) for number in range(3))
NOW = {"collector_state": Part(A, games=B)}
OWN = {"actors": Part(A, B)}
BOTH = {"actors": Part(A), "collector_state": Part(B, C)}


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"actors": Part(A, B)}, NOW),
        ({"actors": Part(A, games=B)}, NOW),
        (NOW, NOW),
        (OWN, OWN),
        (BOTH, BOTH),
    ],
)
def test_an_array_is_read_under_its_former_path_where_the_state_has_only_todays(there, here):
    like = jax.tree.map(jnp.zeros_like, Fields(**here))
    assert_same(stored(**there).fill(like), Fields(**here))


@pytest.mark.parametrize(
    ("there", "here", "says"),
    [
        ({"actors": Part(A, C)}, {"collector_state": Part(A)}, ".collector_state.collector"),
        ({"actors": Part(A)}, {}, ".actors.mask"),
        ({"actors": Part(A, B, C)}, NOW, ".actors.collector"),
        (
            {"actors": Part(A), "collector_state": Part(A)},
            {"collector_state": Part(A)},
            ".actors.mask",
        ),
    ],
)
def test_an_array_that_no_name_explains_is_refused_by_its_name(there, here, says):
    said = stored(**there).mismatch(Fields(**here))
    assert said == f"only the checkpoint has {says}"


def test_its_games_begin_anew_where_their_number_changes(tmp_path):
    first = reinforce()
    folder = folder_of(tmp_path / "run")
    run(CONFIG, first, folder, displays=[Notes(interrupt_at(2))])
    display = Notes()
    checkpoint = find_checkpoint(folder.path)
    result = run(CONFIG, reinforce(num_envs=4), folder, resume=checkpoint, displays=[display])
    assert result.exit_code is ExitCode.DONE
    assert any("new games start" in note for note in display.notes)
