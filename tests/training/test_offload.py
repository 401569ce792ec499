"""The optimizer's state in the host's memory."""

from functools import cache

import equinox as eqx
import jax
import numpy as np
import pytest
from agent import probes
from agent.probes import make_trainer

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import arrays_to_store
from hackmatrix_rl.training.sharding import _placement as offload
from hackmatrix_rl.training.sharding import mesh

from .states import assert_same

pytestmark = pytest.mark.devices

KEY = jax.random.key(3)
PROBE = probes.observation_matters()


def trainer_of(offloaded, shape="data=1"):
    # Wide enough for the parameters to be cut along `fsdp`.
    policy = MLPActorCritic(PROBE.spec, width=128, depth=2, key=jax.random.key(0))
    return make_trainer(
        PROBE, policy, offload_optimizer=offloaded, mesh=mesh(shape), updates_per_dispatch=2
    )


compiled = cache(trainer_of)


def started(offloaded, shape="data=1"):
    """A trainer at its start, compiled once for all tests."""
    trainer = compiled(offloaded, shape)
    trainer.start(KEY)
    return trainer


def kinds(tree):
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return {leaf.sharding.memory_kind for leaf in leaves if leaf.ndim}


@pytest.mark.parametrize("shape", ["data=1", "fsdp=2"])
def test_the_same_is_learned_to_the_last_bit_and_the_state_stays_on_the_host(shape):
    plain, offloaded = started(False, shape), started(True, shape)
    before = offloaded.state
    for trainer in (plain, offloaded):
        trainer.dispatch(2)
    assert_same(plain.state, offloaded.state)
    for state in (before, offloaded.state):
        learner = state.learner
        assert kinds(learner.optimizer_state) == {"pinned_host"}
        assert kinds((learner.policy, state.collector_state)) == {"device"}
    assert kinds(plain.state.learner.optimizer_state) == {"device"}
    # Donated, wherever it lies.
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(eqx.filter(before, eqx.is_array)))


def test_going_on_with_it_or_without_is_going_on():
    first, second = started(False), started(True)
    first.dispatch(2)
    whole = first.place(first.state)
    first.start(KEY)
    first.dispatch(1)
    # As a checkpoint has it: arrays of the host's.
    second.state = eqx.tree_at(
        lambda state: state.learner.optimizer_state,
        first.state,
        jax.tree.map(np.asarray, first.state.learner.optimizer_state),
    )
    assert kinds(second.state.learner.optimizer_state) == {"pinned_host"}
    second.dispatch(1)
    assert_same(whole, second.state)
    first.state = second.state
    assert kinds(first.state.learner.optimizer_state) == {"device"}
    assert_same(whole, first.state)


def test_what_a_checkpoint_stores_is_a_copy():
    trainer = started(True)
    stored = arrays_to_store(trainer.state.learner.optimizer_state)
    before = {name: np.array(leaf) for name, leaf in stored.items()}
    trainer.dispatch(2)
    for name, leaf in stored.items():
        np.testing.assert_array_equal(leaf, before[name])
    assert {leaf.sharding.memory_kind for leaf in stored.values()} == {"device"}


def test_a_backend_without_such_memory_is_refused(monkeypatch):
    monkeypatch.setattr(offload, "memory_kinds", lambda device: ("device",))
    with pytest.raises(ValueError, match=r"pinned memory of its host \(it has device\)"):
        trainer_of(True)
    with pytest.raises(ConfigError) as error:
        compose(make_config("debug", {"offload_optimizer": True}), key=KEY)
    said = str(error.value)
    assert said.startswith("--offload-optimizer: ")
    assert "--no-offload-optimizer" in said
    assert "--mesh" in said
    compose(make_config("debug", {}), key=KEY)
