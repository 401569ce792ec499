"""`--init`: a training starts from another's weights, or is told why it cannot."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, invoke
from training.states import assert_same

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.checkpoints import initial_weights, load
from hackmatrix_rl.system.errors import ConfigError

from .kept import NEWEST, forge, forge_config, unpack


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose weights are there to be used."""
    monkeypatch.chdir(tmp_path)
    return unpack(NEWEST, tmp_path)


def config_of(run, **changes):
    """The settings of a new training from a run's weights."""
    config = dataclasses.replace(load(run).config, run_dir=None, init=str(run))
    return dataclasses.replace(config, **changes)


def test_weights_and_units_of_the_value_come_along_and_nothing_else(run):
    config = config_of(run, learning_rate=0.5, num_envs=32)
    trainer = compose(config, key=jax.random.key(9), read_init=True)
    there = load(run)
    assert_same(trainer.policy, there.policy)
    scale = trainer.algorithm.value_scale
    assert float(scale.weight) == float(there.value_scale().weight) > 0
    assert float(trainer.algorithm.optimization.learning_rate(jnp.float32(0))) == 0.5
    # A resumed training has its own.
    resumed = compose(config, key=jax.random.key(9))
    assert float(resumed.algorithm.value_scale.weight) == 0
    assert not eqx.tree_equal(resumed.policy, there.policy)
    # The other league is a start, too.
    assert_same(initial_weights(config_of(run, league="no-rewind"), there.policy)[0], there.policy)


def test_another_kind_of_value_begins_anew(run):
    config = config_of(run, value_head="hl-gauss")
    there = load(run)
    policy = config.policy(key=jax.random.key(3))
    found, scale = initial_weights(config, policy)
    np.testing.assert_array_equal(found.heads.value.layer.weight, policy.heads.value.layer.weight)
    np.testing.assert_array_equal(found.heads.policy.weight, there.policy.heads.policy.weight)
    assert scale is not None
    _, scale = initial_weights(config_of(run, value_scale="compressed"), there.policy)
    assert scale is None


def test_a_head_for_the_auxiliary_loss_begins_anew(run):
    config = config_of(run, aux_coefficient=0.1, aux_victory=True)
    there = load(run).policy
    policy = config.policy(key=jax.random.key(3))
    found, _ = initial_weights(config, policy)
    assert_same((found.headless, found.auxiliary), (there, policy.auxiliary))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observation": "tactical"}, "trained with --observation compact, but this training has"),
        ({"network": "gru"}, "trained with --network "),
        ({"width": 13}, "this training has --width 13. Use --width "),
    ],
)
def test_another_network_is_named(run, changes, words):
    config = config_of(run, **changes)
    with pytest.raises(ConfigError, match=r"^--init ") as error:
        compose(config, key=jax.random.key(0), read_init=True)
    assert words in str(error.value)


def test_another_game_or_observation_is_named(run):
    policy = load(run).policy
    forge(run, lambda metadata: metadata["game"].update(observation="compact-0"))
    with pytest.raises(ConfigError, match=r"--init .*of another game: observation 'compact-0'"):
        initial_weights(PPOConfig(init=str(run)), policy)


def test_other_arrays_are_named(run):
    """As of a network whose settings are the same, and whose code is another."""
    config = config_of(run)
    forge_config(run, width=64)
    assert dataclasses.asdict(config)["width"] != 64
    config = dataclasses.replace(config, width=64)
    said = r"not of this network and these settings: \.[\w.\[\]]+ is float32\[.* here"
    with pytest.raises(ConfigError, match=said):
        compose(config, key=jax.random.key(0), read_init=True)


def test_the_command_line_refuses_before_anything_is_written(run):
    said = f"--init {run}: trained with --network "
    ppo = ("train", "--algorithm", "ppo", "--init", run)
    assert_refused(invoke(*ppo, "--network", "conv"), said)
    assert_refused(invoke(*ppo, "--teacher-kl", "linear:0.5:0", "--network", "gru"), "--network")
    resumed = invoke("train", "--resume-run", run, "--init", run)
    assert_refused(resumed, "has its weights already. Leave it out")
