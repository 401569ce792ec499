"""`check_policy`: what a network promises beyond its shapes."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import NonTrainable

from . import probes
from .builders import ON_ANY_BOARD

SPEC = probes.Probe({}, board=True).spec


class Small(hm.ActorCritic):
    """One layer, with memory: the sum of what was seen."""

    layer: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(4, 4, key=jax.random.key(0))

    def initial_carry(self):
        return jnp.zeros(4)

    def __call__(self, observation, carry):
        carry = carry + observation.astype(jnp.float32)
        found = self.layer(carry.astype(self.layer.weight.dtype)).astype(jnp.float32)
        return found[:3], found[3], carry


class Chance(Small):
    """Draws when it is traced."""

    def __call__(self, observation, carry):
        logits, value, carry = super().__call__(observation, carry)
        return logits, value + np.float32(np.random.default_rng().random()), carry


class Infinite(Small):
    """Divides by zero."""

    def __call__(self, observation, carry):
        logits, value, carry = super().__call__(observation, carry)
        return logits / 0.0, value, carry


class Fixed(hm.ActorCritic):
    """Has no parameters."""

    table: object = eqx.field(default=None)

    def initial_carry(self):
        return ()

    def __call__(self, observation, carry):
        return jnp.zeros(3), jnp.zeros(()), carry


class WithTable(Small):
    """Holds an array beside its layer."""

    table: object

    def __init__(self, table):
        super().__init__()
        self.table = table


@pytest.mark.parametrize("name", ON_ANY_BOARD)
def test_every_network_passes(name):
    hm.check_policy(build_network(name, SPEC, width=8, key=jax.random.key(0)), SPEC)


def test_a_network_with_its_own_ways_passes_on_the_game():
    spec = hm.HackMatrix().spec
    network = hm.MLPActorCritic(spec, width=8, depth=1, key=jax.random.key(0))
    hm.check_policy(network, spec)


@pytest.mark.parametrize("policy", [Small(), WithTable(NonTrainable(np.ones(2, np.float32)))])
def test_a_network_of_ones_own_passes(policy):
    hm.check_policy(policy, SPEC)
    hm.check_policy(policy, SPEC, precision="bf16")


BROKEN = {
    "chance": (Chance(), r"Chance.__call__ .*called again .* gives other values"),
    "not finite": (Infinite(), "Infinite.__call__ .* logits that .* not finite"),
    "no parameters": (Fixed(), "Fixed has no parameters"),
    "NumPy": (WithTable(np.ones(2, np.float32)), r"\.table is a NumPy array.*NonTrainable"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_and_named(name):
    policy, said = BROKEN[name]
    with pytest.raises(ValueError, match=said) as error:
        hm.check_policy(policy, SPEC)
    assert "\n" not in str(error.value)


def wrong_split(spec):
    """A split whose static features are decided by more than it says."""
    bits = spec.split.seen
    split = dataclasses.replace(spec.split, seen=lambda observation: bits(observation) & 0)
    return dataclasses.replace(spec, split=split)


def test_a_split_that_is_wrong_is_found_and_the_spec_is_checked_too():
    spec = wrong_split(hm.HackMatrix().spec)
    network = hm.MLPActorCritic(spec, width=8, depth=1, key=jax.random.key(0))
    said = r"MLPActorCritic.__call__ .*whole sequence by its evaluator, gives other logits"
    with pytest.raises(ValueError, match=said):
        hm.check_policy(network, spec)
    with pytest.raises(TypeError, match=r"spec is .*use env.spec"):
        hm.check_policy(Small(), hm.HackMatrix())
