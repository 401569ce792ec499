"""The trainer, on probes and on CartPole."""

import dataclasses
import itertools
import threading
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent import probes
from agent.builders import OwnLoss
from agent.probes import make_trainer

from hackmatrix_rl.agent import LossMetrics, PPOLoss
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole, Environment
from hackmatrix_rl.training import CompilingAhead, Constant, Counter, Linear, Trainer, adam
from hackmatrix_rl.training._program import LoweredProgram
from hackmatrix_rl.training.sharding import mesh

from .states import assert_same

KEY = jax.random.key(3)


def probe(**changes) -> Trainer:
    return make_trainer(probes.observation_matters(), updates_per_dispatch=4, **changes)


def started(**changes) -> Trainer:
    trainer = probe(**changes)
    trainer.start(KEY)
    return trainer


@pytest.fixture(scope="module")
def plain():
    """Compiled once; each test starts it anew."""
    return started()


def states_after(trainer, *dispatches):
    """The state after some dispatches of so many updates, from the start on."""
    trainer.start(KEY)
    for updates in dispatches:
        trainer.dispatch(updates)
    return trainer.place(trainer.state)


@pytest.mark.parametrize("name", ["f32", pytest.param("bf16", marks=pytest.mark.nightly)])
def test_cartpole_is_solved(name):
    environment = CartPole()
    total = 180_000
    trainer = Trainer(
        PPO(
            environment,
            MLPActorCritic(environment.spec, width=64, key=jax.random.key(0)),
            loss=PPOLoss(ent_coef=0.005),
            learning_rate=Linear(2.5e-3, 0.0, total),
            precision=precision(name),
            num_envs=32,
            num_steps=128,
        ),
        updates_per_dispatch=8,
    )
    # One of 13 seeds in 14 that end at about 500 however the program is compiled.
    last = list(trainer.train(total, key=jax.random.key(2)))[-1]
    assert last.episode["return"] >= 475


def test_several_updates_in_a_dispatch_are_the_same_as_one_after_another(plain):
    assert_same(states_after(plain, 3), states_after(plain, 1, 1, 1))


def test_the_same_key_trains_the_same_and_another_key_does_not(plain):
    one, same = states_after(plain, 2), states_after(started(), 2)
    assert_same(one, same)
    plain.start(jax.random.key(4))
    plain.dispatch(2)
    weights = [state.learner.policy.layers[0].weight for state in (one, plain.state)]
    assert not np.array_equal(*weights)


def test_it_trains_to_the_total_by_whole_updates():
    trainer = make_trainer(probes.value_only(), updates_per_dispatch=4)
    found = list(trainer.train(10 * trainer.batch_size - 5, key=KEY))
    assert [m.updates for m in found] == [4, 8, 10]
    assert found[-1].env_steps == 10 * trainer.batch_size
    more = list(trainer.train(12 * trainer.batch_size))
    assert [m.updates for m in more] == [12]


def test_a_key_starts_anew_from_the_policy_that_was_handed_in(plain):
    states_after(plain, 2)
    plain.start(KEY)
    assert_same(plain.policy, plain._policy)
    assert int(plain.state.env_steps) == 0


def test_the_state_is_donated_and_what_was_handed_in_or_out_is_not():
    probe = probes.value_only()
    policy = MLPActorCritic(probe.spec, width=16, depth=1, key=jax.random.key(0))
    trainer = make_trainer(probe, policy)
    trainer.start(KEY)
    before, copied = trainer.state, trainer.policy
    trainer.dispatch(1)
    left = [leaf for leaf in jax.tree.leaves(before) if eqx.is_array(leaf)]
    assert all(leaf.is_deleted() for leaf in left)
    for kept in (policy, copied):
        assert not any(
            leaf.is_deleted() for leaf in jax.tree.leaves(eqx.filter(kept, eqx.is_array))
        )


def test_the_learning_rate_follows_environment_steps():
    batch = 16 * 8
    trainer = started(learning_rate=Linear(0.1, 0.0, 10 * batch))
    rates = [trainer.dispatch(1).learning["learning_rate"] for _ in range(12)]
    np.testing.assert_allclose(rates, np.maximum(0.1 * (1 - np.arange(12) / 10), 0), atol=1e-6)


def test_precision_and_mesh_may_be_texts_and_an_optimizer_brings_its_own_rate():
    trainer = make_trainer(probes.value_only(), precision="bf16", mesh="data=2")
    assert trainer.algorithm.precision == precision("bf16")
    assert trainer.mesh == trainer.algorithm.mesh == mesh("data=2")
    trainer = started(learning_rate=None, optimizer=optax.sgd(0.0))
    assert trainer.algorithm.optimization.learning_rate == Constant(1.0)
    assert "learning_rate" not in trainer.dispatch(1).learning  # only the optimizer knows it
    assert_same(trainer.policy, trainer._policy)


def test_a_limit_of_the_divergence_stops_the_update():
    free = started(learning_rate=0.1).dispatch(1)
    trainer = started(learning_rate=0.1, target_kl=1e-3)
    stopped = trainer.dispatch(1)
    assert free.learning["gradient_steps"] == 8
    # The first minibatch is always learned from: the policy has not moved yet.
    assert 1 <= stopped.learning["gradient_steps"] < 8
    assert stopped.learning["skipped"] == 0
    assert 1e-3 < stopped.learning["approx_kl"] < free.learning["approx_kl"]


def test_under_a_loss_that_asks_for_it_the_true_divergence_stops_the_update():
    stopped = started(learning_rate=0.1, target_kl=1e-3, loss=PPOLoss(true_kl=True)).dispatch(1)
    assert 1 <= stopped.learning["gradient_steps"] < 8
    assert stopped.learning["kl"] > 1e-3
    # The estimate alone would have let every minibatch through.
    loss = OwnLoss(PPOLoss(true_kl=True), change=no_kl)
    again = started(learning_rate=0.1, target_kl=1e-3, loss=loss).dispatch(1)
    assert again.learning["approx_kl"] == 0
    assert again.learning["gradient_steps"] == stopped.learning["gradient_steps"]


def no_kl(loss, metrics, policy, batch):
    """An estimate of the divergence that is always 0."""
    return loss, dataclasses.replace(metrics, approx_kl=jnp.float32(0.0))


def test_a_loss_of_ones_own_reports_its_own_numbers():
    def curious(loss, metrics, policy, batch):
        extra = {"curiosity": jnp.float32(0.25)}
        return loss, LossMetrics(**{**vars(metrics), "extra": extra})

    metrics = started(loss=OwnLoss(change=curious)).dispatch(2)
    assert metrics.as_dict()["curiosity"] == 0.25


def test_metrics_are_means_over_the_episodes_that_ended():
    trainer = make_trainer(probes.discounting(), clock=itertools.count().__next__)
    trainer.start(KEY)
    trainer.compile()
    metrics = trainer.dispatch(2)
    assert metrics.episodes == 16 * 8 * 2 / 2
    assert metrics.episode == {"return": 1.0, "length": 2.0, "last_state": 0.0}
    assert metrics.reward == {"all": 1.0}
    assert metrics.seconds == 1
    assert metrics.steps_per_second == 2 * trainer.batch_size
    assert "return 1.00" in metrics.summary()
    assert "\n" not in metrics.summary()


def test_without_an_ended_episode_there_are_no_means():
    endless = probes.Probe({(0, None): (1.0, 0, probes.GOES_ON)})
    trainer = make_trainer(endless)
    trainer.start(KEY)
    metrics = trainer.dispatch(1)
    assert metrics.episodes == 0
    assert "return" not in metrics.as_dict()
    assert metrics.summary()


class OneReward(Environment):
    """CartPole with one reward that is not a number, of the first game in its third step."""

    truncates = True
    inner: CartPole = CartPole()

    @property
    def spec(self):
        return self.inner.spec

    def reset(self, keys):
        state, timestep = self.inner.reset(keys)
        return (state, jnp.zeros(keys.shape[0], jnp.int32)), timestep

    def step(self, state, actions, keys):
        inner, timestep = self.inner.step(state[0], actions, keys)
        odd = (state[1] == 2) & (jnp.arange(keys.shape[0], dtype=jnp.int32) == 0)
        reward = jnp.where(odd, jnp.nan, timestep.reward)
        return (inner, state[1] + 1), dataclasses.replace(timestep, reward=reward)


def test_one_reward_that_is_not_a_number_stops_no_later_gradient_step():
    environment = OneReward()
    policy = MLPActorCritic(environment.spec, width=4, depth=1, key=KEY)
    sizes = {"num_envs": 4, "num_steps": 4, "num_minibatches": 2, "update_epochs": 1}
    trainer = Trainer(PPO(environment, policy, **sizes))
    taken = [
        (metrics.learning["gradient_steps"], metrics.learning["skipped"])
        for metrics in trainer.train(3 * trainer.batch_size, key=KEY)
    ]
    assert taken == [(1, 1), (2, 0), (2, 0)]


def test_schedules_are_float32_functions_of_environment_steps():
    steps = jnp.array([0.0, 50.0, 100.0, 1e9], jnp.float32)
    line = jax.vmap(Linear(1.0, 0.5, 100))(steps)
    np.testing.assert_allclose(line, [1.0, 0.75, 0.5, 0.5])
    assert line.dtype == jnp.float32
    np.testing.assert_array_equal(jax.vmap(Constant(3.0))(steps), 3.0)


@pytest.mark.parametrize("start", [0, 2**31 - 1, 2**32 - 5, 7 * 2**32 + 2**32 - 1])
def test_a_counter_counts_beyond_32_bits(start):
    counter = jax.jit(lambda c: c.add(32768))(Counter.from_int(start))
    assert int(counter) == start + 32768
    assert counter.as_float() == pytest.approx(start + 32768, rel=1e-6)


def test_adam_has_rate_one_and_shortens_long_gradients():
    optimizer = adam(max_grad_norm=0.5)
    weights = {"w": jnp.zeros(2, jnp.float32)}
    with jax.numpy_dtype_promotion("standard"):
        state = optimizer.init(weights)
        change, after = optimizer.update({"w": jnp.array([300.0, -400.0])}, state, weights)
    np.testing.assert_allclose(change["w"], [-1.0, 1.0], rtol=1e-3)
    first_moment = optax.tree.get(after, "mu")["w"]
    np.testing.assert_allclose(first_moment, [0.03, -0.04], rtol=1e-4)


def test_what_another_trainer_compiled_ahead_changes_no_bit_and_is_not_compiled_again(
    plain, monkeypatch
):
    trainer, ahead = probe(), CompilingAhead(lambda: (probe(), KEY))
    trainer.compile_ahead(ahead)
    ahead.program()
    monkeypatch.setattr(trainer, "trace", None)
    monkeypatch.setattr("hackmatrix_rl.training._program.Starter", None)
    assert_same(states_after(trainer, 2, 1), states_after(plain, 3))


def test_what_was_compiled_ahead_for_a_state_of_other_sizes_is_not_used(plain):
    trainer = probe()
    games = 2 * trainer.algorithm.sizes.num_envs
    trainer.compile_ahead(CompilingAhead(lambda: (probe(num_envs=games), None)))
    assert_same(states_after(trainer, 3), states_after(plain, 3))


def test_an_error_ahead_is_one_of_compile():
    trainer = probe()

    def fails():
        raise ArithmeticError("no such kernel")

    trainer.compile_ahead(CompilingAhead(fails))
    for act in (trainer.compile, lambda: trainer.start(KEY)):
        with pytest.raises(ArithmeticError, match="no such kernel"):
            act()


def test_a_gpus_program_is_compiled_when_nothing_trains(monkeypatch):
    def compile(lowered):
        threads.append(threading.current_thread())

    threads = []
    monkeypatch.setattr(LoweredProgram, "compile", compile)
    device = SimpleNamespace(platform="gpu")
    trainer = SimpleNamespace(
        **{"eager": False, "environment": CartPole(), "algorithm": None},
        mesh=SimpleNamespace(devices=np.array([device])),
        lower_program=lambda: LoweredProgram(None, None, None, None),
    )
    CompilingAhead(lambda: (trainer, None)).program()
    assert threads == [threading.main_thread()]


def test_what_belongs_to_a_trainer_or_to_several_processes_is_not_compiled_ahead(monkeypatch):
    assert CompilingAhead.can(probe())
    assert not CompilingAhead.can(probe(eager=True))
    monkeypatch.setattr("hackmatrix_rl.training._ahead.is_single_process", lambda: False)
    assert not CompilingAhead.can(probe())
