"""How PPO is composed: its collector, and what a trainer asks of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import (
    AuxiliaryLoss,
    Collector,
    EpsilonGreedyChoice,
    PPOLoss,
    RolloutCollector,
)
from hackmatrix_rl.agent.networks import add_auxiliary_head
from hackmatrix_rl.algorithms.imitation import CloneLoss
from hackmatrix_rl.evaluation import RandomAgent
from hackmatrix_rl.training.sharding import ShardedCollector

CARTPOLE = hm.CartPole(max_steps=20)
POLICY = hm.MLPActorCritic(CARTPOLE.spec, width=8, depth=1, key=jax.random.key(0))
SIZES = {"num_envs": 4, "num_minibatches": 2, "update_epochs": 1}


def ppo(**changes):
    return hm.PPO(CARTPOLE, POLICY, **{**SIZES, **changes})


class Wrapped(Collector):
    """Not a `RolloutCollector`, but does the same."""

    collect: RolloutCollector
    num_steps: int = eqx.field(static=True, default=8)
    terms: tuple[str, ...] = eqx.field(static=True, default=())
    keep_log_probs: bool = eqx.field(static=True, default=False)

    def start(self, policy, environment, keys):
        return self.collect.start(policy, environment, keys)

    def __call__(self, policy, environment, collector_state, *, precision):
        return self.collect(policy, environment, collector_state, precision=precision)


def test_a_collector_brings_its_number_of_steps():
    assert ppo().steps_per_update == 4 * 128
    assert ppo(num_steps=8).steps_per_update == 4 * 8
    assert ppo(collector=RolloutCollector(16)).steps_per_update == 4 * 16
    assert ppo(collector=RolloutCollector(16), num_steps=16).steps_per_update == 4 * 16
    with pytest.raises(ValueError, match="num_steps is 8, and the collector takes 16 steps"):
        ppo(collector=RolloutCollector(16), num_steps=8)
    greedy = RolloutCollector(16, choice=EpsilonGreedyChoice(jnp.float32(0.1)))
    with pytest.raises(ValueError, match="collector chooses the actions by EpsilonGreedyChoice"):
        ppo(collector=greedy)


class Sub(RolloutCollector):
    """It could collect in its own way."""


def test_a_rollout_collector_is_sharded_and_any_other_is_used_as_it_is():
    own = Wrapped(RolloutCollector(8))
    assert isinstance(ppo(collector=Sub(8)).collect, Sub)
    assert isinstance(ppo(collector=RolloutCollector(8), mesh="data=2").collect, ShardedCollector)
    assert ppo(collector=own).collect is own
    trainers = [hm.Trainer(ppo(num_steps=8)), hm.Trainer(ppo(collector=own))]
    for trainer in trainers:
        trainer.start(jax.random.key(1))
        trainer.dispatch(1)
    assert_same(*(trainer.state for trainer in trainers))


def test_a_collector_must_keep_what_the_loss_needs():
    for true_kl in (True, False):
        assert ppo(loss=PPOLoss(true_kl=true_kl)).collect.keep_log_probs is true_kl
    with pytest.raises(ValueError, match="use keep_log_probs=True"):
        ppo(loss=PPOLoss(true_kl=True), collector=RolloutCollector(8))
    assert ppo(
        loss=PPOLoss(true_kl=True), collector=RolloutCollector(8, keep_log_probs=True)
    ).collect.keep_log_probs

    environment = hm.HackMatrix()
    plain = hm.MLPActorCritic(environment.spec, width=8, depth=1, key=jax.random.key(0))
    policy = add_auxiliary_head(plain, environment.spec, key=jax.random.key(1))
    given = {"loss": PPOLoss(auxiliary=AuxiliaryLoss(0.1)), **SIZES}
    with pytest.raises(ValueError, match=r"use terms=environment\.spec\.terms"):
        hm.PPO(environment, policy, collector=RolloutCollector(8), **given)
    keeps = RolloutCollector(8, terms=environment.spec.terms)
    assert hm.PPO(environment, policy, collector=keeps, **given).collect.terms == keeps.terms


def test_imitation_needs_a_collector_in_which_others_choose_the_actions():
    modules = ppo(loss=CloneLoss(), collector=Wrapped(RolloutCollector(8)))
    with pytest.raises(ValueError, match="ppo has the collector Wrapped"):
        hm.Imitation(modules, RandomAgent())


class Half(eqx.Module):
    """A loss that returns half of what is expected."""

    def __call__(self, policy, batch):
        return jnp.mean(batch.advantage)


@pytest.mark.parametrize("around", [lambda ppo: ppo, lambda ppo: hm.Imitation(ppo, RandomAgent())])
def test_a_trainer_checks_a_loss_of_ones_own(around):
    algorithm = around(ppo(loss=Half()))
    with pytest.raises(TypeError, match="expected a tuple"):
        hm.Trainer(algorithm)


def test_only_what_can_runs_without_being_compiled():
    hm.Trainer(ppo(loss=Half()), eager=True)
    with pytest.raises(ValueError, match="Imitation cannot run operation by operation"):
        hm.Trainer(hm.Imitation(ppo(loss=CloneLoss()), RandomAgent()), eager=True)


def test_the_compiled_program_does_not_have_the_initial_policy():
    trainer = hm.Trainer(ppo(num_steps=8))
    trainer.start(jax.random.key(1))
    inputs, _ = trainer.lower().in_avals
    arrays = len(jax.tree.leaves(eqx.filter(trainer.state, eqx.is_array)))
    modules = jax.tree.leaves(eqx.filter(trainer.algorithm, eqx.is_array))
    policy = jax.tree.leaves(eqx.filter(POLICY, eqx.is_array))
    numbers = 2  # the learning rate, and how many updates
    assert len(jax.tree.leaves(inputs)) == arrays + len(modules) - len(policy) + numbers
    assert trainer.algorithm.initial_policy is POLICY
