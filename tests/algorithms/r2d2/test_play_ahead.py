"""Environments that Python steps play in a thread, while the device learns."""

import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from jax.experimental import io_callback
from training.states import assert_close

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import play_ahead
from hackmatrix_rl.env import Environment

from .building import SIZES, Alike, network, trainer

pytestmark = pytest.mark.search

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
GAME = probes.truncation()
WAIT_SECONDS = 60


class Called(Environment):
    """An environment that calls Python in each step."""

    inner: Environment
    call: object = eqx.field(static=True)

    @property
    def spec(self):
        return self.inner.spec

    @property
    def truncates(self):
        return self.inner.truncates

    def reset(self, keys):
        return self.inner.reset(keys)

    def step(self, state, actions, keys):
        state, timestep = self.inner.step(state, actions, keys)
        zero = io_callback(self.call, jax.ShapeDtypeStruct((), jnp.float32), actions, ordered=False)
        return state, eqx.tree_at(lambda x: x.reward, timestep, timestep.reward + zero)


def algorithm_of(call):
    environment = Called(GAME, call)
    policy = network(environment.spec)
    return hm.R2D2(environment, policy, **SIZES, learning_rate=1e-2), policy


def nothing(actions):
    return np.float32(0)


def test_in_turn_it_comes_to_what_a_trainer_comes_to():
    algorithm, policy = algorithm_of(nothing)
    with_thread = list(
        play_ahead(algorithm, algorithm.init(jax.random.key(1), policy), updates=6, ahead=0)
    )
    trained = hm.Trainer(algorithm)
    trained.start(jax.random.key(1))
    metrics = trained.dispatch(6)
    assert_close(with_thread[-1][0], trained.state, **CLOSE)
    assert [each.env_steps for _, each in with_thread] == [32 * n for n in range(1, 7)]
    assert with_thread[-1][1].updates == metrics.updates == 6


def test_ahead_each_update_learns_from_the_network_of_one_update_earlier():
    """By hand, without a thread: what is played does not depend on who is faster."""
    algorithm, policy = algorithm_of(nothing)
    began = algorithm.init(jax.random.key(1), policy)
    play, learn = eqx.filter_jit(algorithm.play), eqx.filter_jit(algorithm.learn_from)
    state, collector, networks = began, began.collector_state.games, [policy, policy]
    for _ in range(5):
        new = play(networks.pop(0), collector)
        collector = new.collector
        state, _ = learn(state, new)
        networks.append(state.learner.policy)
    *_, (found, _) = play_ahead(algorithm, began, updates=5)
    assert_close(found, state, **CLOSE)
    assert eqx.tree_equal(began.learner.policy, policy), "the state that was given is still there"


def test_another_device_may_choose_the_actions_with_the_same_result(monkeypatch):
    """So an accelerator learns while the CPU plays."""
    play, played_on = hm.R2D2.play, []

    def watched(self, policy, collector, *, mesh=None):
        played_on.extend(mesh.devices.flat)
        return play(self, policy, collector, mesh=mesh)

    algorithm, policy = algorithm_of(nothing)
    began = algorithm.init(jax.random.key(1), policy)
    *_, (alone, _) = play_ahead(algorithm, began, updates=4)
    monkeypatch.setattr(hm.R2D2, "play", watched)
    here, other = jax.devices()[:2]
    *_, (found, _) = play_ahead(algorithm, began, updates=4, plays_on=other)
    assert set(played_on) == {other}
    leaves = jax.tree.leaves(eqx.filter(found, eqx.is_array))
    assert {device for leaf in leaves for device in leaf.devices()} == {here}
    assert_close(found, alone, **CLOSE)


class Waiting(Alike):
    """Weighs what was drawn once Python says that it may."""

    wait: object = eqx.field(static=True, default=None)

    def weight(self, probability, number):
        one = io_callback(self.wait, jax.ShapeDtypeStruct((), jnp.float32))
        return one * super().weight(probability, number)


def test_the_next_steps_are_played_while_the_device_learns():
    """The first update does not end before the second one is played; and the thread ends."""
    steps, begins, waited = [], threading.Event(), []

    def call(actions):
        steps.append(actions)
        if len(steps) > SIZES["train_freq"]:
            begins.set()
        return np.float32(0)

    def wait():
        waited.append(begins.wait(WAIT_SECONDS))
        return np.float32(1)

    environment = Called(GAME, call)
    policy = network(environment.spec)
    learns = hm.R2D2(environment, policy, **SIZES, sampling=Waiting(wait=wait), learning_rate=1e-2)
    updates = play_ahead(learns, learns.init(jax.random.key(1), policy), updates=3)
    next(updates)
    assert waited == [True] * SIZES["train_steps"]
    updates.close()
    assert not any(thread.name == "play_ahead" for thread in threading.enumerate())
    assert len(steps) <= 3 * SIZES["train_freq"]


def test_what_an_environment_raises_comes_out_where_it_is_asked_for():
    count = iter(range(1000))

    def call(actions):
        if next(count) >= 2 * SIZES["train_freq"]:
            raise RuntimeError("the screen is broken")
        return np.float32(0)

    algorithm, policy = algorithm_of(call)
    found = play_ahead(algorithm, algorithm.init(jax.random.key(1), policy), updates=5)
    next(found)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the screen is broken"):
        list(found)
    assert not any(thread.name == "play_ahead" for thread in threading.enumerate())


def test_what_cannot_work_is_refused_by_name():
    made = trainer(GAME, mesh="data=2")
    made.start(jax.random.key(0))
    for wrong, said in (
        ({"updates": 0}, "updates must be at least 1"),
        ({"updates": 2, "ahead": -1}, "ahead must be at least 0"),
        ({"updates": 2}, "algorithm has 2 devices.*use mesh=None"),
    ):
        with pytest.raises(ValueError, match=said):
            play_ahead(made.algorithm, made.state, **wrong)
    with pytest.raises(TypeError, match="algorithm"):
        play_ahead(made, made.state, updates=1)
