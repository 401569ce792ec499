"""Hooks: when they are called, what they may return, and that training does not feel them."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from agent import probes
from agent.probes import make_trainer

import hackmatrix_rl as hm

from .states import assert_same

KEY = jax.random.key(3)


def trainer_of(**changes):
    return make_trainer(probes.observation_matters(), **changes)


def total(trainer, updates):
    return updates * trainer.batch_size


@pytest.fixture(scope="module")
def trainer():
    """Compiled once; each test starts it anew."""
    return trainer_of(updates_per_dispatch=2)


def test_each_is_called_after_each_dispatch_in_their_order(trainer):
    calls = []

    def first(given, metrics):
        assert given is trainer
        assert int(given.state.update) == metrics.updates
        calls.append(("first", metrics.updates))
        return {"mine": jnp.float32(metrics.updates)}

    def second(given, metrics):
        assert metrics.as_dict()["mine"] == metrics.updates
        calls.append(("second", metrics.updates))

    rows = list(trainer.train(total(trainer, 5), key=KEY, hooks=[first, second]))
    assert calls == [(name, n) for n in (2, 4, 5) for name in ("first", "second")]
    assert [row.extra for row in rows] == [{"mine": 2.0}, {"mine": 4.0}, {"mine": 5.0}]
    assert [row.dispatched for row in rows] == [2, 2, 1]


def test_one_that_raises_stop_training_ends_it_and_the_others_are_still_called(trainer):
    seen = []

    def stops(_, metrics):
        if metrics.updates == 4:
            raise hm.StopTraining

    def sees(_, metrics):
        seen.append(metrics.updates)

    rows = list(trainer.train(total(trainer, 100), key=KEY, hooks=[stops, sees]))
    assert [row.updates for row in rows] == seen == [2, 4]
    assert int(trainer.state.update) == 4


def test_fit_is_the_loop(trainer):
    rows = list(trainer.train(total(trainer, 3), key=KEY))
    state = jax.device_get(jax.tree.map(lambda leaf: leaf, trainer.policy))
    last = trainer.fit(total(trainer, 3), key=KEY)
    assert last.updates == rows[-1].updates == 3
    assert_same(trainer.policy, state)
    assert trainer.fit(total(trainer, 3)) is None


def returns_text(trainer, metrics):
    return "0.5"


def returns_text_by_name(trainer, metrics):
    return {"mine": "0.5"}


def returns_a_taken_name(trainer, metrics):
    return {"entropy": 1.0}


@pytest.mark.parametrize(
    ("hooks", "error", "said"),
    [
        (print, TypeError, "hooks"),
        ([3], TypeError, "hooks"),
        ([returns_text], TypeError, "the hook returns_text returns '0.5'"),
        ([returns_text_by_name], TypeError, "'mine', which the hook returns_text_by_name"),
        ([returns_a_taken_name], ValueError, "returns_a_taken_name returns 'entropy'"),
    ],
)
def test_what_cannot_work_is_refused_by_name(trainer, hooks, error, said):
    with pytest.raises(error, match=said):
        list(trainer.train(total(trainer, 1), key=KEY, hooks=hooks))


def test_an_error_of_a_hook_is_not_swallowed(trainer):
    def broken(_, __):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        list(trainer.train(total(trainer, 1), key=KEY, hooks=[broken]))


def test_evaluation_does_not_change_training(trainer):
    trainer.fit(total(trainer, 6), key=KEY)
    without = trainer.place(trainer.state)
    trainer.fit(total(trainer, 6), key=KEY, hooks=[hm.EvaluateEvery(2, episodes=8)])
    assert_same(trainer.state, without)


def test_a_dispatch_ends_at_each_multiple(trainer):
    evaluate = hm.EvaluateEvery(3, episodes=4)
    rows = list(trainer.train(total(trainer, 10), key=KEY, hooks=[evaluate]))
    due = [row.updates for row in rows if "eval/return" in row.as_dict()]
    assert [row.updates for row in rows] == [2, 3, 5, 6, 8, 9, 10]
    assert due == [3, 6, 9]
    # Counters alone decide: a training that goes on is evaluated where it would have been.
    trainer.fit(total(trainer, 4), key=KEY)
    again = list(trainer.train(total(trainer, 10), hooks=[evaluate]))
    assert [row.updates for row in again if "eval/return" in row.extra] == [6, 9]
    assert again[0].extra == rows[3].extra


class Recorder(hm.Hook):
    """Writes down what is called, and stops before some update."""

    def __init__(self, calls, name, stop_at=None):
        self.calls, self.name, self.stop_at = calls, name, stop_at

    def on_start(self, trainer):
        self.calls.append((self.name, "start", int(trainer.state.update)))

    def before_dispatch(self, trainer):
        self.calls.append((self.name, "before", int(trainer.state.update)))
        if int(trainer.state.update) == self.stop_at:
            raise hm.StopTraining

    def updates_until_due(self, trainer):
        return 1

    def on_end(self, trainer):
        self.calls.append((self.name, "end", int(trainer.state.update)))


def test_a_hook_is_called_from_the_start_to_the_end_and_shortens_dispatches(trainer):
    calls = []
    hooks = [Recorder(calls, "first"), Recorder(calls, "second")]
    rows = list(trainer.train(total(trainer, 2), key=KEY, hooks=hooks))
    assert [row.dispatched for row in rows] == [1, 1]
    moments = [("start", 0), ("before", 0), ("before", 1), ("before", 2)]
    forwards = [(name, *each) for each in moments for name in ("first", "second")]
    assert calls == [*forwards, ("second", "end", 2), ("first", "end", 2)]


def test_a_hook_may_stop_before_a_dispatch_and_those_of_the_trainer_come_first(trainer):
    calls = []
    trainer.fit(total(trainer, 5), key=KEY, hooks=[Recorder(calls, "only", stop_at=1)])
    assert int(trainer.state.update) == 1
    assert calls[-1] == ("only", "before", 1)
    calls = []
    own = trainer_of(hooks=[Recorder(calls, "own")])
    own.fit(total(own, 1), key=KEY, hooks=[Recorder(calls, "call")])
    assert [name for name, moment, _ in calls if moment == "start"] == ["own", "call"]


def test_the_games_are_apart_from_trainings_and_alike_each_time(trainer):
    trainer.start(KEY)
    metrics = dataclasses.replace(trainer.dispatch(1), updates=1)
    evaluate = hm.EvaluateEvery(1, episodes=16)
    first, again = (evaluate.after_dispatch(trainer, metrics) for _ in range(2))
    keyed = hm.EvaluateEvery(1, episodes=16, key=jax.random.key(5))
    other = keyed.after_dispatch(trainer, metrics)
    assert first == again
    assert first["eval/episodes"] == 16
    assert first["eval/return_low"] <= first["eval/return"] <= first["eval/return_high"]
    assert first != other


@pytest.mark.parametrize("wrong", [{"updates": 0}, {"updates": 1, "episodes": 0}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must be at least 1"):
        hm.EvaluateEvery(**wrong)
