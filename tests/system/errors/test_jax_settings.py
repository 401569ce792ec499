"""Settings of JAX under which nothing here computes end in one line, at the beginning."""

import json
from contextlib import contextmanager

import jax
import pytest
from cli.commands import assert_refused, done, invoke

import hackmatrix_rl as hm
from hackmatrix_rl.system.errors import ConfigError

ENV = hm.CartPole()
KEY = jax.random.key(0)
POLICY = hm.MLPActorCritic(ENV.spec, width=4, depth=1, key=KEY)


@contextmanager
def wide_numbers():
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


SETTINGS = {
    "JAX_ENABLE_X64=0": wide_numbers,
    "JAX_TRANSFER_GUARD,": lambda: jax.transfer_guard("disallow"),
    "JAX_TRANSFER_GUARD_HOST_TO_DEVICE,": lambda: jax.transfer_guard_host_to_device("disallow"),
}
BEGINNINGS = {
    "evaluate": lambda: hm.evaluate(POLICY, ENV, episodes=1, key=KEY),
    "check_environment": lambda: hm.check_environment(ENV),
    "check_policy": lambda: hm.check_policy(POLICY, ENV.spec),
}


@pytest.mark.parametrize("advice", SETTINGS)
@pytest.mark.parametrize("begins", BEGINNINGS)
def test_whoever_begins_to_compute_says_what_to_unset(advice, begins):
    with SETTINGS[advice](), pytest.raises(ConfigError, match=advice):
        BEGINNINGS[begins]()


def test_a_training_needs_compilation_and_32_bits():
    ppo = hm.PPO(ENV, POLICY, num_envs=4, num_steps=2, num_minibatches=1)
    for advice, setting in (SETTINGS | {"JAX_DISABLE_JIT": jax.disable_jit}).items():
        with setting(), pytest.raises(ConfigError, match=advice):
            hm.Trainer(ppo)
    with jax.disable_jit():
        hm.Trainer(ppo, eager=True)


def test_commands_refuse_them_and_doctor_and_help_say_so():
    with wide_numbers():
        assert_refused(invoke("eval", "random"), "jax_enable_x64", "JAX_ENABLE_X64=0")
        done("eval", "--help")
        found = json.loads(invoke("doctor", "--json").stdout)["parts"]
    (settings,) = (part for part in found if part["part"] == "settings")
    assert settings["judgement"] == "fails"
    assert "JAX_ENABLE_X64=0" in settings["remedy"]
