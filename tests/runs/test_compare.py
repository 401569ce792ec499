"""Two trainings side by side, on a probe and on CartPole."""

import itertools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from agent.probes import make_trainer
from training.states import assert_same

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.evaluation import Verdict, evaluate, policy_divergence
from hackmatrix_rl.runs import compare
from hackmatrix_rl.runs._compare import Contender
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Trainer

pytestmark = pytest.mark.devices

PROBE = probes.observation_matters()


def network(key):
    return MLPActorCritic(PROBE.spec, width=16, depth=1, key=key)


def contender(name, *, updates=20, **changes) -> Contender:
    trainer = make_trainer(PROBE, updates_per_dispatch=4, **changes)
    return Contender(name, trainer, network, updates * trainer.batch_size)


@pytest.fixture(scope="module")
def compared():
    notes = []
    sides = (contender("f32"), contender("bf16", precision=precision("bf16")))
    found = compare(*sides, seeds=(3, 4), episodes=64, note=notes.append)
    return sides, found, notes


def test_both_are_trained_from_each_seed_and_measured(compared):
    (one, _), found, notes = compared
    for each in found.measured:
        assert each.compile_seconds > 0
        assert each.memory_bytes > 1000
        assert len(each.steps_per_second) == 2 * 5  # seeds, dispatches
        assert each.speed > 0
        assert [values.shape for values in each.returns] == [(64,), (64,)]
    assert found.peak_bytes > 2**20
    assert any("seed 4 (2 of 2)" in note for note in notes)
    json.dumps(found.as_dict(), allow_nan=False)
    assert found.as_dict()["baseline"]["name"] == "f32"
    assert found.as_dict()["candidate"]["episodes"] == 64
    # The same as training alone.
    alone = contender("alone")
    alone.start(4)
    for _ in range(5):
        alone.trainer.dispatch(4)
    assert_same(alone.trainer.policy, found.measured[0].policies[1])
    returns = evaluate(alone.trainer.policy, PROBE, episodes=64, key=jax.random.key(4))
    np.testing.assert_array_equal(returns.values["return"], found.measured[0].returns[1])
    assert one.trainer.compiled


def test_both_policies_are_compared_on_the_same_observations(compared):
    _, found, _ = compared
    assert len(found.divergence) == 2
    assert len(found.divergence_of_seeds) == 1
    # The same seed, but for rounding; other weights with another seed.
    assert 0 < max(found.divergence) < min(found.divergence_of_seeds)


def test_a_contender_that_learns_nothing_is_found_out():
    found = compare(
        contender("learns", updates=40),
        contender("does not", updates=40, learning_rate=0.0),
        seeds=(0, 1, 2),
        episodes=128,
    )
    assert found.judgement.verdict is Verdict.WORSE
    assert found.judgement.baseline.mean > 2 * found.judgement.candidate.mean


def test_they_take_turns_and_turns_at_going_first():
    order = []

    class Listening(Trainer):
        def dispatch(self, updates):
            order.append(self.name)
            return super().dispatch(updates)

    def listening(name, updates):
        side = contender(name, updates=updates)
        side.trainer.__class__ = Listening
        side.trainer.name = name
        return side

    compare(listening("a", 12), listening("b", 8), seeds=(0, 1), episodes=4)
    assert order == ["a", "b", "b", "a", "a", "b", "a", "a", "b", "a"]


def test_environments_that_do_not_look_alike_are_refused():
    cartpole = CartPole()
    trainer = Trainer(PPO(cartpole, MLPActorCritic(cartpole.spec, width=4, key=jax.random.key(0))))
    other = Contender("cartpole", trainer, network, 1)
    with pytest.raises(ConfigError, match="different observations or actions"):
        compare(contender("probe"), other, seeds=(0,), episodes=4)


def test_a_long_training_tells_how_far_it_is(monkeypatch):
    notes = []
    compare(
        contender("a", updates=8),
        contender("b", updates=8),
        seeds=(0,),
        episodes=4,
        note=notes.append,
        clock=itertools.count(0, 100).__next__,
    )
    assert any("a at 512 steps, b at 512 steps" in note for note in notes)


def test_the_divergence_of_a_policy_from_itself_is_nothing_and_else_as_computed_by_hand():
    policy = network(jax.random.key(0))
    assert policy_divergence(policy, policy, PROBE, key=jax.random.key(1)) == 0.0
    # Logits that do not depend on what is seen: the divergence is the same everywhere.
    flat = eqx.tree_at(
        lambda p: p.heads.policy.weight, policy, jnp.zeros_like(policy.heads.policy.weight)
    )
    tilted = eqx.tree_at(
        lambda p: p.heads.policy.bias, flat, jnp.log(jnp.array([0.5, 0.25, 0.25], jnp.float32))
    )
    found = policy_divergence(flat, tilted, PROBE, key=jax.random.key(1))
    assert found == pytest.approx(np.mean(np.log(1 / 3 / np.array([0.5, 0.25, 0.25]))), rel=1e-4)
