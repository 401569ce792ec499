import equinox as eqx
import jax
import jax.numpy as jnp

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.runs import compose, training_keys
from hackmatrix_rl.runs._keys import stage_keys
from hackmatrix_rl.runs.config import make_config


def test_the_seed_gives_each_key_of_a_run():
    (network, training), second = (jax.random.split(jax.random.key(seed)) for seed in (3, 4))
    config = make_config("debug", {"env": "cartpole", "seed": 3})
    assert eqx.tree_equal(compose(config).policy, config.policy(key=network))
    assert training_keys(config) == training
    both = training_keys(PPOConfig(seed=3, seeds=2))
    assert (both == jnp.stack([training, second[1]])).all()
    assert stage_keys(config, 7) == tuple(jax.random.fold_in(key, 7) for key in (network, training))
