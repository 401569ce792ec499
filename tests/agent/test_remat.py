"""Computing again instead of keeping: the same gradients from less memory."""

import equinox as eqx
import jax
import numpy as np
import pytest
from training.states import assert_close

from agent import probes
from agent.builders import ON_ANY_BOARD, Closed, random_batch
from hackmatrix_rl.agent import AuxiliaryLoss, PPOLoss
from hackmatrix_rl.agent.networks import (
    GRUActorCritic,
    ResidualActorCritic,
    add_auxiliary_head,
    build_network,
    rematerialized,
)

pytestmark = pytest.mark.devices

SPEC = probes.Probe({}, board=True).spec
KEY = jax.random.key(0)
LOSS = PPOLoss(value_clip=0.2)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
BLOCKS = ("residual", "resnet", "transformer", "recursive")
"""The networks of equal blocks."""


def gradient(policy, batch, remat="none", loss=LOSS):
    @eqx.filter_jit
    @eqx.filter_grad(has_aux=True)
    def of(policy, batch):
        return loss(rematerialized(policy, remat), batch)

    return of(policy, batch)


@pytest.mark.parametrize(
    ("name", "remat"),
    [
        *((name, "full") for name in ON_ANY_BOARD if name not in BLOCKS[1:]),
        *((name, "blocks") for name in BLOCKS),
    ],
)
def test_the_gradient_is_that_without(name, remat):
    policy = build_network(name, SPEC, width=8, key=KEY)
    batch = random_batch(policy, SPEC)
    assert_close(gradient(policy, batch, remat), gradient(policy, batch), **CLOSE)


@pytest.mark.parametrize("remat", ["blocks", "full"])
def test_an_auxiliary_loss_sees_the_same_hidden_layer(remat):
    policy = add_auxiliary_head(ResidualActorCritic(SPEC, width=8, depth=2, key=KEY), SPEC, key=KEY)
    batch = random_batch(policy, SPEC)
    loss = PPOLoss(auxiliary=AuxiliaryLoss(0.5))
    plain, metrics = gradient(policy, batch, loss=loss)
    assert np.abs(plain.auxiliary.terms.weight).max() > 0
    assert_close(gradient(policy, batch, remat, loss), (plain, metrics), **CLOSE)


def test_a_network_of_ones_own_can_be_recomputed_whole():
    policy = Closed(GRUActorCritic(SPEC, width=8, key=KEY))
    batch = random_batch(policy, SPEC)
    assert_close(gradient(policy, batch, "full"), gradient(policy, batch), **CLOSE)


def temporary_bytes(remat):
    """Of the compiled gradient of a deep network on a batch that is not small."""
    policy = ResidualActorCritic(SPEC, width=32, depth=8, key=KEY)
    batch = random_batch(policy, SPEC, num_steps=32, num_envs=16)
    parameters, rest = eqx.partition(policy, eqx.is_inexact_array)

    def loss(parameters, batch):
        return LOSS(rematerialized(eqx.combine(parameters, rest), remat), batch)[0]

    compiled = jax.jit(jax.grad(loss)).lower(parameters, batch).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_a_deep_network_needs_less_memory():
    none, blocks, full = (temporary_bytes(remat) for remat in ("none", "blocks", "full"))
    # A block keeps 4 widths inside, twice, and more for its normalisation.
    assert blocks < none / 3
    assert full < none / 8


@pytest.mark.parametrize("name", [name for name in ON_ANY_BOARD if name not in BLOCKS])
def test_a_network_without_blocks_is_refused_by_name(name):
    policy = build_network(name, SPEC, width=8, key=KEY)
    with pytest.raises(ValueError, match=f"{type(policy).__name__} has no blocks"):
        rematerialized(policy, "blocks")


def test_an_unknown_choice_says_which_there_are():
    with pytest.raises(ValueError, match="none, blocks, full"):
        rematerialized(ResidualActorCritic(SPEC, width=8, key=KEY), "some")
