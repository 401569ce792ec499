"""The memory of the training program: what it writes over, and what it copies."""

import re

import equinox as eqx
import jax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.training import Trainer

NUM_STEPS, NUM_ENVS = 24, 40  # found nowhere else in the program


@pytest.fixture(scope="module")
def trainer():
    env = CartPole()
    policy = hm.MLPActorCritic(env.spec, width=16, depth=1, key=jax.random.key(0))
    made = Trainer(
        PPO(env, policy, num_envs=NUM_ENVS, num_steps=NUM_STEPS, num_minibatches=2, update_epochs=2)
    )
    made.start(jax.random.key(1))
    return made


@pytest.fixture(scope="module")
def compiled(trainer):
    return trainer.lower().compile()


def test_every_array_of_the_state_is_written_where_it_was_read(trainer, compiled):
    arrays = jax.tree.leaves(eqx.filter(trainer.state, eqx.is_array))
    # `{3}: (3, {}, may-alias)`: the fourth result lies where the fourth argument did.
    header = compiled.as_text().splitlines()[0]
    aliased = re.findall(r"\{(\d+)\}: \((\d+), \{\}, \w+-alias\)", header)
    assert aliased == [(str(number), str(number)) for number in range(len(arrays))]
    assert compiled.memory_analysis().alias_size_in_bytes == sum(leaf.nbytes for leaf in arrays)


def test_the_observations_of_a_rollout_are_there_once(compiled):
    program = compiled.as_text()
    held = rf"f32\[{NUM_STEPS},{NUM_ENVS},4\]"
    assert re.search(rf"= \(.*{held}", program), "the loop of the rollout carries them"
    assert not re.search(rf"= {held}\S* copy\(", program)
    # What minibatches hold of them is a part, not all of them in another order.
    assert not re.search(rf"= f32\[{NUM_ENVS},{NUM_STEPS},4\]", program)
