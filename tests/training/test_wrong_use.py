"""What users get wrong in Python ends in one clear error; see `wrong_use.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from . import wrong_use

SCRIPT = Path(wrong_use.__file__)

# For each case the type of the error, what came, what was expected, and the line to change.
EXPECTED = {
    "logits_size": ("ValueError", "Net.__call__", "logits", "(1,)", "(2,)", "num_actions"),
    "value_shape": ("ValueError", "Net.__call__", "value", "(1,)", "shape ()", "value[0]"),
    "value_is_integer": ("ValueError", "value int32", "float32", ".astype(jnp.float32)"),
    "two_results": ("TypeError", "a tuple of 2", "three things", "return logits, value, carry"),
    "carry_shape": ("ValueError", "another kind of carry", "initial_carry()"),
    "carry_dtype": ("ValueError", "carry was float32", "is int32", "initial_carry()"),
    "carry_structure": ("ValueError", "carry was ()", "['memory']", "initial_carry()"),
    "carry_narrow": ("ValueError", "NarrowMemory.initial_carry", "bfloat16", "expected float32"),
    "bf16_logits": ("ValueError", "Net.__call__", "bfloat16", ".astype(jnp.float32)"),
    "bf16_unused": ("ValueError", "Wide.__call__", "1 product", "bfloat16", "= spec.encode"),
    "dropout": ("ValueError", "Dropping.__call__", "eqx.nn.Dropout", "eqx.nn.inference_mode"),
    "policy_class": ("TypeError", "policy is the class Net", "an instance: Net(env.spec, key="),
    "policy_function": ("TypeError", "the function as_it_is", "instance of hm.ActorCritic"),
    "policy_of_another": ("ValueError", "Net.__call__", "(4,)", "this environment's spec"),
    "actions_of_another": ("ValueError", "(3,)", "expected float32 of shape (2,)", "this env"),
    "batch_to_mlp": ("ValueError", "12 numbers", "ONE observation", "jax.vmap(network)"),
    "batch_to_gru": ("ValueError", "12 numbers", "ONE observation", "jax.vmap(network)"),
    "batch_to_conv": ("ValueError", "(3, 36)", "ONE observation", "jax.vmap(network)"),
    "batch_to_classic": ("ValueError", "(3, 10)", "ONE observation", "jax.vmap(network)"),
    "vmap_over_one": ("ValueError", "2 inputs", "1 numbers", "ONE observation"),
    "policy_mask_none": ("TypeError", "mask is None", "bool of shape (2,)"),
    "policy_mask_float": ("ValueError", "mask is float32", "bool", ".astype(bool)"),
    "integer_reward": ("ValueError", "Walk.reset", "reward is int32", ".astype(jnp.float32)"),
    "mask_none": ("TypeError", "mask is None", "bool of shape (3, 2)", "jnp.ones(("),
    "mask_float": ("ValueError", "mask is float32", "expected bool", ".astype(bool)"),
    "unbatched_observation": ("ValueError", "observation is", "(2,)", "(3, 2)", "jax.vmap"),
    "observation_dtype": ("ValueError", "observation is int32", "spec.observation", ".astype("),
    "spec_shape": ("TypeError", "Walk.spec", "(2,)", "jax.ShapeDtypeStruct((2,), jnp.float32)"),
    "spec_is_none": ("TypeError", "Walk.spec", "None", "EnvSpec(...)"),
    "terms_unnamed": ("ValueError", "['pay']", "spec.terms, []", 'terms=("pay",)'),
    "no_timestep": ("TypeError", "Walk.reset", "second place", "return state, hm.Timestep("),
    "environment_class": ("TypeError", "the class CartPole", "an instance: CartPole()"),
    "single_game": ("TypeError", "an instance of Single, one game", "hm.Batched(game, max_steps="),
    "single_game_class": ("TypeError", "the class Single", "hm.Batched(Single(), max_steps="),
    "limit_is_nan": ("TypeError", "max_steps is nan", "expected a whole number"),
    "limit_is_float": ("TypeError", "max_steps is 500.0", "max_steps=500"),
    "gymnax": ("TypeError", "Gymnax", "hm.Environment", "hm.from_gymnax"),
    "float_actions": ("TypeError", "float32", "expected int32", "actions.astype(jnp.int32)"),
    "float_actions_in_game": ("TypeError", "float32", "actions.astype(jnp.int32)"),
    "float_action_in_play": ("TypeError", "action is 1.5 (float)", "hm.Action"),
    "two_actions_in_play": ("TypeError", "action is int32 of shape (2,)", "hm.Action"),
    "another_history_in_play": ("ValueError", "game with history=16", "config has history=8"),
    "another_size_in_play": ("ValueError", "max_enemies=24", "config has max_enemies=12"),
    "one_action_for_all": ("ValueError", "of shape ()", "(3,)", "each environment"),
    "list_of_actions": ("TypeError", "a list of 3", "expected int32"),
    "optimizer_is_number": ("TypeError", "0.001 (float)", "optimizer=optax.adam(0.001)"),
    "optimizer_not_called": ("TypeError", "the function adam", "optimizer=optax.adam(3e-4)"),
    "negative_rate": ("ValueError", "learning_rate is -0.001", "0 or more", "0.001"),
    "negative_rate_at_the_end": ("ValueError", "learning_rate is -0.001", "0 or more"),
    "rate_is_nan": ("ValueError", "learning_rate", "finite number", "nan"),
    "rate_is_text": ("TypeError", "learning_rate is '1e-3'", "expected a number"),
    "rate_of_optax": ("TypeError", "function", "optimizer=optax.adam(schedule)"),
    "precision_unknown": ("ValueError", "precision 'bf17'", "bf16"),
    "precision_is_dtype": ("TypeError", "the class bfloat16", 'precision=hm.precision("bf16")'),
    "mesh_misspelt": ("ArgumentError", "mesh dta=1", "Did you mean data?"),
    "mesh_is_number": ("TypeError", "mesh is 2", 'mesh=hm.mesh("data=2")'),
    "num_envs_is_float": ("TypeError", "num_envs is 16.0", "num_envs=16"),
    "num_steps_0": ("ValueError", "num_steps must be at least 1"),
    "minibatches_0": ("ValueError", "num_minibatches must be at least 1"),
    "dispatch_0": ("ValueError", "updates_per_dispatch must be at least 1"),
    "target_kl_is_nan": ("ValueError", "target_kl", "finite number"),
    "gae_class": ("TypeError", "the class GAE", "gae=GAE()"),
    "gamma": ("ValueError", "gamma must be in [0, 1]", "1.5"),
    "clip_is_nan": ("ValueError", "clip_coef must be positive"),
    "collector_class": ("TypeError", "the class RolloutCollector", "RolloutCollector()"),
    "value_scale_class": ("TypeError", "value_scale is 'none'", "RunningScale()"),
    "loss_class": ("TypeError", "the class PPOLoss", "PPOLoss()"),
    "loss_signature": ("TypeError", "OneArgument.__call__", "(batch)", "(policy, batch)"),
    "loss_without_metrics": ("TypeError", "Bare.__call__", "two things", "LossMetrics(...)"),
    "loss_of_each_step": ("ValueError", "EachStep.__call__", "(4, 8)", "shape ()", "jnp.mean"),
    "no_key": ("ValueError", "key=jax.random.key(0)"),
    "key_is_number": ("TypeError", "key is 3", "key=jax.random.key(3)"),
    "key_is_old": ("TypeError", "uint32", "PRNGKey", "key=jax.random.key(0)"),
    "several_keys": ("TypeError", "several keys", "expected one", "keys[0]"),
    "total_is_negative": ("ValueError", "total_timesteps must be at least 1", "-1"),
    "total_is_text": ("TypeError", "total_timesteps is '64'", "expected a number"),
    "of_a_number": ("TypeError", "algorithm is 3", "an instance of Algorithm"),
    "of_a_class": ("TypeError", "algorithm is the class PPO"),
    "imitation_of_a_trainer": ("TypeError", "an instance of Trainer", "ppo=hm.PPO(environment"),
    "of_an_environment": ("TypeError", "an instance of Walk", "hm.PPO(environment, policy)"),
    "evaluate_class": ("TypeError", "the class RandomAgent", "RandomAgent()"),
    "evaluate_network_class": ("TypeError", "the class MLPActorCritic", "(env.spec, key="),
    "evaluate_function": ("TypeError", "the function as_it_is", "ActorCritic", "Agent"),
    "evaluate_in_class": ("TypeError", "the class CartPole", "CartPole()"),
    "evaluate_gymnax": ("TypeError", "Gymnax", "hm.Environment", "hm.from_gymnax"),
    "evaluate_float_actions": ("ValueError", "FloatPlayer.act", "float32", "expected one int32"),
    "evaluate_integer_reward": ("ValueError", "reward is int32", ".astype(jnp.float32)"),
    "evaluate_old_key": ("TypeError", "PRNGKey", "key=jax.random.key(0)"),
    "evaluate_no_episodes": ("ValueError", "episodes must be at least 1"),
    "evaluate_value_shape": ("ValueError", "Net.__call__", "value", "(1,)", "value[0]"),
    "truncates": ("ValueError", "truncated is True", "Walk.truncates says False", "return True"),
    "spec_given_environment": ("TypeError", "spec is an instance of Walk", "env.spec"),
    "right_without_dropout": None,
    "right_trainer": None,
    "right_game": None,
    "right_evaluation": None,
}

# Cases about a line of the user's own: it is named.
OWN_LINES = {
    *("logits_size", "value_shape", "two_results", "carry_shape", "carry_narrow", "bf16_logits"),
    "bf16_unused",
    *("policy_of_another", "integer_reward", "mask_none", "unbatched_observation", "spec_shape"),
    *("terms_unnamed", "no_timestep", "loss_signature", "loss_of_each_step", "truncates"),
    *("evaluate_float_actions", "evaluate_integer_reward", "evaluate_value_shape"),
}


@pytest.fixture(scope="module")
def auxiliary():
    """How each case ends in a session of a user's: without the run-time checks of the tests."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT)],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_case_has_its_expectation():
    assert set(EXPECTED) == set(wrong_use.CASES)


@pytest.mark.parametrize("name", EXPECTED)
def test_wrong_use_ends_in_one_clear_error(name, auxiliary):
    if EXPECTED[name] is None:
        assert auxiliary[name] is None
        return
    kind, *words = EXPECTED[name]
    assert auxiliary[name] is not None, "nothing is raised"
    found, said = auxiliary[name]
    assert found == kind, said
    assert "\n" not in said
    for word in words:
        assert word in said
    if name in OWN_LINES:
        assert f"{SCRIPT.name}:" in said
