"""`hm.save` and `hm.load` of a policy in one file."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm

SPEC = hm.CartPole().spec


def policy_of(seed, width=8):
    return hm.MLPActorCritic(SPEC, width=width, depth=1, key=jax.random.key(seed))


def logits(policy):
    return policy(jnp.arange(4.0), policy.initial_carry())[0]


def test_another_network_is_refused_by_the_name_of_its_layer_and_none_with_what_to_give(tmp_path):
    hm.save(policy_of(1), tmp_path / "policy")
    with pytest.raises(hm.ConfigError, match=r"does not fit the network: \S*layers\[0\]\S* is "):
        hm.load(tmp_path / "policy", like=policy_of(1, width=16))
    with pytest.raises(hm.ConfigError, match=r"hm\.load\(path, like=network\)"):
        hm.load(tmp_path / "policy")


def test_the_state_of_a_training_is_no_policy(tmp_path):
    trainer = trainer_of(policy_of(1))
    trainer.start(jax.random.key(0))
    trainer.save(tmp_path / "training")
    with pytest.raises(hm.ConfigError, match="holds a training state, not a policy"):
        hm.load(tmp_path / "training", like=policy_of(1))


def test_wrong_use_is_refused(tmp_path):
    with pytest.raises(TypeError, match="policy"):
        hm.save({"a": 1}, tmp_path / "policy")
    with pytest.raises(TypeError, match="like"):
        hm.load(tmp_path, like=policy_of(1), network="mlp")
    with pytest.raises(hm.ConfigError):
        hm.load(tmp_path / "gone", like=policy_of(1))


def trainer_of(policy):
    return hm.Trainer(hm.PPO(hm.CartPole(), policy, num_envs=4, num_steps=4, num_minibatches=1))


def test_a_saved_policy_comes_back_in_a_network_of_the_same_sizes_and_can_be_trained_on(tmp_path):
    policy = policy_of(1)
    hm.save(policy, str(tmp_path / "policy"))
    loaded = hm.load(tmp_path / "policy", like=policy_of(2))
    assert isinstance(loaded, hm.MLPActorCritic)
    np.testing.assert_array_equal(logits(loaded), logits(policy))
    assert not np.array_equal(logits(policy_of(2)), logits(policy))
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    leaves = jax.tree.leaves(eqx.filter(loaded, eqx.is_array))
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    trainer_of(loaded)
