"""From a config to a policy, and to the losses that it is made for."""

import sys
import types

import jax
import jax.numpy as jnp
import pytest
from agent.builders import Closed
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import ActorCritic, MLPActorCritic
from hackmatrix_rl.games.hackmatrix import TERM_NAMES
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError

KEY = jax.random.key(0)


def build(**settings):
    return make_config("debug", settings).policy(key=KEY)


def test_an_auxiliary_loss_adds_a_head_and_changes_nothing_that_acts():
    small = {"network": "residual", "width": 8}
    plain, policy = build(**small), build(**small, aux_coefficient=0.1)
    assert policy.auxiliary.terms.bias.shape == (len(TERM_NAMES),)
    assert_same(plain, policy.headless)


def test_without_it_nothing_of_it_is_composed():
    update = compose(make_config("debug", {}), key=KEY).algorithm
    assert update.loss.auxiliary is None
    assert update.collect.terms == ()
    update = compose(
        make_config("debug", {"aux_coefficient": 0.1, "aux_every": 3}), key=KEY
    ).algorithm
    assert (update.loss.auxiliary.coefficient, update.loss.auxiliary.every) == (0.1, 3)
    assert update.collect.terms == TERM_NAMES


def test_the_measures_reach_the_update():
    settings = {"network": "residual", "remat": "blocks", "grad_accum": 2, "minibatch_size": 64}
    update = compose(make_config("debug", settings), key=KEY).algorithm
    step = update.optimization
    assert (step.remat, step.grad_accum, update.sizes.num_minibatches) == ("blocks", 2, 4)


def test_a_network_that_cannot_is_named_with_what_can(monkeypatch):
    module = types.ModuleType("own_networks")
    module.make = lambda spec, *, width=3, key: Closed(hm.MLPActorCritic(spec, width=3, key=key))
    monkeypatch.setitem(sys.modules, "own_networks", module)
    with pytest.raises(ConfigError) as error:
        build(network="own_networks:make", aux_coefficient=0.5)
    assert "--aux-coefficient: --network own_networks:make" in str(error.value)
    assert "Use --aux-coefficient 0" in str(error.value)
    for name in ("own_networks:make", "gru"):
        with pytest.raises(ConfigError, match=f"--remat blocks: --network {name}.*residual"):
            compose(make_config("debug", {"network": name, "remat": "blocks"}), key=KEY)


def test_a_network_that_returns_something_else_is_refused_in_one_line(monkeypatch):
    class Two(ActorCritic):
        weight: jax.Array

        def initial_carry(self):
            return ()

        def __call__(self, observation, carry):
            return self.weight, carry

    module = types.ModuleType("own_networks")
    module.two = lambda spec, *, width, key: Two(jnp.zeros(spec.num_actions))
    monkeypatch.setitem(sys.modules, "own_networks", module)
    with pytest.raises(ConfigError, match=r"--network own_networks:two: Two.__call__ .*a tuple of"):
        compose(make_config("debug", {"network": "own_networks:two"}), key=KEY)


def test_a_network_of_ones_own_gets_no_width_that_nobody_chose(monkeypatch):
    module = types.ModuleType("own_networks")
    module.plain = lambda spec, *, key: MLPActorCritic(spec, width=3, key=key)
    monkeypatch.setitem(sys.modules, "own_networks", module)
    for env in ("hackmatrix", "cartpole"):
        for preset in ("debug", "cpu"):
            config = make_config(preset, {"network": "own_networks:plain", "env": env}, "ppo")
            assert config.policy(key=KEY).layers[0].bias.shape == (3,)
    with pytest.raises(ValueError, match="has no width"):
        make_config("debug", {"network": "own_networks:plain", "width": 8}).policy(key=KEY)
