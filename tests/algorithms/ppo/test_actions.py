"""PPO and imitation in spaces of actions other than `Discrete`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from env.targets import Dials, Target
from training.states import assert_same, assert_same_but_for_rounding

import hackmatrix_rl as hm
from hackmatrix_rl.agent import PPOLoss, TanhGaussian
from hackmatrix_rl.agent.networks import DenseHeads, TrunkActorCritic, with_gaussian
from hackmatrix_rl.algorithms.imitation import CloneLoss
from hackmatrix_rl.evaluation import Agent, policy_divergence

NIGHTLY = pytest.mark.nightly
KEY = jax.random.key(0)
SIZES = {"num_envs": 32, "num_steps": 8, "num_minibatches": 2, "learning_rate": 0.01}
GAMES = {"box": hm.Batched(Target()), "multi": hm.Batched(Dials())}
GOOD = {"box": -0.1, "multi": 1.9}


def ppo(name, network=hm.MLPActorCritic, key=KEY, **settings):
    policy = network(GAMES[name].spec, width=16, key=key)
    return hm.PPO(GAMES[name], policy, **{**SIZES, **settings})


def trained(algorithm, updates, key=KEY):
    trainer = hm.Trainer(algorithm)
    trainer.start(key)
    report = trainer.dispatch(updates)
    return trainer, report


def mean_return(policy, name):
    found = hm.evaluate(policy, GAMES[name], episodes=64, greedy=True, key=KEY, record=True)
    space = GAMES[name].spec.actions
    assert found.actions[0].shape == (2 if name == "box" else 1, *space.shape)
    assert np.issubdtype(found.actions[0].dtype, np.floating) == (name == "box")
    return found.values["return"].mean()


@pytest.mark.parametrize("name", GAMES)
def test_the_best_action_is_learned(name):
    trainer, _ = trained(ppo(name), 60)
    assert mean_return(trainer.policy, name) > GOOD[name]
    assert mean_return(trainer._policy, name) < GOOD[name]
    assert policy_divergence(trainer.policy, trainer.policy, GAMES[name], key=KEY) == 0


class Squashed(TrunkActorCritic):
    """A network with its own choice of distribution and standard deviation."""

    layer: eqx.nn.Linear
    heads: DenseHeads

    def __init__(self, spec, *, width, key):
        self.layer = eqx.nn.Linear(2, width, key=key)
        self.heads = DenseHeads(width, spec.actions, own_std=True, squash=True, key=key)

    def trunk(self, observation, carry):
        return jax.nn.tanh(self.layer(observation)), carry


def squashed(spec, *, width, key):
    policy = hm.MLPActorCritic(spec, width=width, key=key)
    return with_gaussian(policy, own_std=True, squash=True, key=key)


@pytest.mark.parametrize("network", [squashed, pytest.param(Squashed, marks=NIGHTLY)])
def test_a_squashed_policy_with_its_own_standard_deviation_learns(network):
    trainer, _ = trained(ppo("box", network), 60)
    hm.check_policy(trainer.policy, GAMES["box"].spec)
    pi = trainer.policy.distribution(jnp.zeros(4), jnp.zeros(0, bool))
    assert isinstance(pi, TanhGaussian)
    assert mean_return(trainer.policy, "box") > -0.3


COMBINED = {
    "gru": {"network": hm.GRUActorCritic, "precision": "bf16", "mesh": hm.mesh("data=2")},
    "lstm": {"network": hm.LSTMActorCritic, "grad_accum": 2, "mesh": hm.mesh("data=2")},
    "kl": {"loss": PPOLoss(true_kl=True, teacher_kl_coef=0.1), "target_kl": 0.05},
}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("box", "gru"),
        ("multi", "kl"),
        *(pytest.param("box", how, marks=NIGHTLY) for how in ("lstm", "kl")),
        *(pytest.param("multi", how, marks=NIGHTLY) for how in ("gru", "lstm")),
    ],
)
def test_it_combines_with_memory_precision_devices_and_kl(name, how):
    trainer, report = trained(ppo(name, **COMBINED[how]), 2)
    numbers = dict(report.learning)
    assert np.isfinite(list(numbers.values())).all()
    assert ("kl" in numbers) == (how == "kl")
    for before, after in zip(*map(leaves, (trainer._policy, trainer.policy)), strict=True):
        assert np.isfinite(after).all()
        assert before.shape == after.shape
    assert trainer.state.collector_state.mask.shape == (32, GAMES[name].spec.actions.mask_size)


def leaves(policy):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(policy, eqx.is_array))]


@pytest.mark.nightly
def test_two_devices_train_as_one():
    one, two = (trained(ppo("box", mesh=hm.mesh(f"data={size}")), 2)[0] for size in (1, 2))
    assert_same_but_for_rounding(one.state.learner, two.state.learner, rtol=1e-3, atol=1e-4)


@pytest.mark.nightly
def test_a_member_of_a_population_is_the_training_of_its_key():
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    together, _ = trained(hm.Population([ppo("box", key=key) for key in keys]), 2, keys)
    alone, _ = trained(ppo("box", key=keys[1]), 2, keys[1])
    own = together.algorithm.member(together.state, 1)
    assert_same_but_for_rounding(own, alone.state, rtol=1e-3, atol=1e-4)


def test_a_loaded_training_continues_bit_by_bit(tmp_path):
    trainer, _ = trained(ppo("box"), 1)
    trainer.save(tmp_path / "training")
    trainer.dispatch(1)
    again = hm.Trainer(ppo("box"))
    again.load(tmp_path / "training")
    again.dispatch(1)
    assert_same(trainer.state, again.state)


class Knows(Agent):
    """Plays the target, the observation."""

    def act(self, observation, mask, carry, *, key):
        dials = jnp.argmax(observation, axis=-1).astype(jnp.int32)
        return (dials if observation.ndim == 2 else observation), carry


@pytest.mark.parametrize("name", ["box", pytest.param("multi", marks=NIGHTLY)])
def test_a_teacher_is_imitated_by_likelihood(name):
    student = ppo(name, loss=CloneLoss())
    trainer, report = trained(
        hm.Imitation(student, Knows(), buffer_size=1024, random_share=0.1), 60
    )
    assert mean_return(trainer.policy, name) > GOOD[name]
    assert ("accuracy" in report.learning) == (name == "multi")
