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
from jax.sharding import NamedSharding, PartitionSpec

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


def test_one_part_that_is_not_finite_shows_in_the_whole():
    policy = policy_of()
    batch = random_batch(policy, SPEC)
    batch = eqx.tree_at(lambda b: b.value_target, batch, batch.value_target.at[0, 3].set(jnp.nan))
    found, _ = gradient(policy, batch, 4)
    assert not np.isfinite(found.heads.value.weight).all()


def test_every_environment_is_in_one_part():
    batch = random_batch(policy_of("gru"), SPEC, num_envs=12)
    for parts in (2, 3):
        pieces = [part_of(batch, part, parts) for part in range(parts)]
        for part, piece in enumerate(pieces):
            np.testing.assert_array_equal(piece.action, batch.action[:, part::parts])
            np.testing.assert_array_equal(piece.initial_carry, batch.initial_carry[part::parts])
            assert piece.number == batch.number


def test_parts_of_what_lies_on_several_devices_stay_there():
    batch = random_batch(policy_of("gru"), SPEC)
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])

    def place(leaf, axis):
        spec = PartitionSpec(*[None] * axis, "data")
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    placed = batch.along_environments(place)

    def cut(batch, part):
        return part_of(batch, part, 2).along_environments(lambda leaf, axis: leaf)

    everywhere = jax.tree.map(lambda leaf: leaf.sharding, placed)
    everywhere = eqx.tree_at(lambda b: b.number, everywhere, NamedSharding(mesh, PartitionSpec()))
    program = jax.jit(cut, out_shardings=everywhere).lower(placed, jnp.int32(1)).compile()
    text = program.as_text()
    for collective in ("all-gather", "all-to-all", "all-reduce", "collective-permute"):
        assert collective not in text


def test_parts_that_would_not_be_equal_are_an_error():
    with pytest.raises(ValueError, match="8 samples of a batch do not divide into 3"):
        part_of(random_batch(policy_of(), SPEC), 0, 3)
    with pytest.raises(ValueError, match="grad_accum 3"):
        make_trainer(probes.value_only(), grad_accum=3)
