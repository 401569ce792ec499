"""Training with the auxiliary loss."""

import jax
import jax.numpy as jnp
import pytest
from agent import probes
from agent.probes import make_trainer
from training.states import assert_same

from hackmatrix_rl.agent import AuxiliaryLoss, AuxiliaryMetrics, PPOLoss
from hackmatrix_rl.agent.networks import MLPActorCritic, add_auxiliary_head

# Two programs are compared bit by bit.
pytestmark = pytest.mark.usefixtures("optimized")

KEY = jax.random.key(3)
PROBE = probes.observation_matters()
PLAIN = MLPActorCritic(PROBE.spec, width=16, depth=1, key=jax.random.key(0))
POLICY = add_auxiliary_head(PLAIN, PROBE.spec, key=KEY)


def started(policy=POLICY, loss=None, **changes):
    loss = PPOLoss(auxiliary=AuxiliaryLoss(0.5, every=20)) if loss is None else loss
    trainer = make_trainer(PROBE, policy, loss=loss, **changes)
    trainer.start(KEY)
    return trainer


@pytest.fixture(scope="module")
def headed(optimized):
    """Compiled once; each test starts it anew."""
    return started()


def test_a_head_without_the_loss_changes_no_bit_of_what_is_learned():
    plain, more = started(PLAIN, PPOLoss()), started(POLICY, PPOLoss())
    for trainer in (plain, more):
        trainer.dispatch(2)
    learned = more.state.learner.policy
    assert_same(learned.headless, plain.state.learner.policy)
    assert_same(learned.auxiliary, POLICY.auxiliary)


def test_going_on_takes_its_turns_as_if_it_had_not_stopped(headed):
    headed.start(KEY)
    headed.dispatch(3)  # turns are at minibatches 0 and 20 of 24
    whole, second = headed.place(headed.state), started()
    headed.start(KEY)
    headed.dispatch(2)
    second.state = headed.state
    second.dispatch(1)
    assert_same(whole.learner, second.state.learner)


def test_what_is_told_is_a_mean_over_the_turns_and_nothing_without_one(headed):
    headed.start(KEY)
    told = ["aux_terms_loss" in headed.dispatch(1).learning for _ in range(3)]
    assert told == [True, False, True]
    number = jnp.float32(1.0)
    sums = AuxiliaryMetrics(due=0.5 * number, terms=3 * number, terminated=number)
    assert sums.means() == {"aux_terms_loss": 6.0, "aux_end_loss": 2.0}
