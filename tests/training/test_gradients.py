"""Learning from a minibatch in parts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent import probes
from agent.builders import OwnLoss, random_batch
from agent.probes import make_trainer

from hackmatrix_rl.agent import IDENTITY_SCALE, AuxiliaryLoss, PPOLoss
from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic, add_auxiliary_head
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.training import GradientStep
from hackmatrix_rl.training._gradient_step import part_of
from hackmatrix_rl.training.sharding import single_device

SPEC = probes.Probe({}).spec
KEY = jax.random.key(0)
LOSS = PPOLoss(value_clip=0.2, auxiliary=AuxiliaryLoss(0.5))
NETWORKS = {"mlp": MLPActorCritic, "gru": GRUActorCritic}

# What adding up in another order may change, relative to the largest number of an array.
TOLERANCE = 1e-5


def policy_of(name="mlp"):
    return add_auxiliary_head(NETWORKS[name](SPEC, width=16, key=KEY), SPEC, key=KEY)


def gradient(policy, batch, parts, *, loss=LOSS, name="f32"):
    step = GradientStep(optax.sgd(1.0), precision(name), single_device(), parts)
    learner = step.init(policy, IDENTITY_SCALE)
    return eqx.filter_jit(step.gradient)(learner, loss, batch)[:2]


def assert_close(one, other, tolerance=TOLERANCE):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(np.abs(b).max(), 1e-3))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_come_to_the_whole(name, parts):
    policy = policy_of(name)
    batch = random_batch(policy, SPEC)
    # The gradient, and with it every number that was told: the divergence, too.
    assert_close(gradient(policy, batch, parts), gradient(policy, batch, 1))


def test_a_part_is_normalised_by_the_whole_minibatch():
    policy = policy_of()
    batch = random_batch(policy, SPEC)
    whole, _ = gradient(policy, batch, 1)
    apart, _ = gradient(policy, batch, 8, loss=OwnLoss(LOSS))
    with pytest.raises(AssertionError):
        assert_close(apart, whole, 100 * TOLERANCE)


def test_parts_that_would_not_be_equal_are_an_error():
    with pytest.raises(ValueError, match="8 samples of a batch do not divide into 3"):
        part_of(random_batch(policy_of(), SPEC), 0, 3)
    with pytest.raises(ValueError, match="grad_accum 3"):
        make_trainer(probes.value_only(), grad_accum=3)
