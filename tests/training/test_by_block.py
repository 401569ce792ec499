"""Networks whose blocks are gathered one by one while a gradient is computed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.agent.networks import (
    ResidualActorCritic,
    ResNetActorCritic,
    add_auxiliary_head,
    blocks_of,
    rematerialized,
)
from hackmatrix_rl.agent.precision import equations, precision
from hackmatrix_rl.env import EnvSpec, Features
from hackmatrix_rl.training import GradientStep
from hackmatrix_rl.training.compiled import collectives
from hackmatrix_rl.training.sharding import by_block, fsdp_shardings, mesh, place

DEPTH, WIDTH = 6, 64
SPEC = EnvSpec(
    3, jax.ShapeDtypeStruct((5,), jnp.float32), lambda seen: Features(seen), terms=("points",)
)
STEPS = {
    "alone": ("data=1", "none", "f32"),
    "whole": ("data=2,fsdp=2", "full", "f32"),
    "blocks": ("data=2,fsdp=2", "none", "f32"),
    "recomputed": ("data=1,fsdp=4", "blocks", "f32"),
    "bf16": ("data=1,fsdp=4", "none", "bf16"),
}


class Seen(eqx.Module):
    seen: jax.Array


class Errors(eqx.Module):
    """A loss that sees all outputs of a network."""

    def prepare(self, batch):
        return self, batch

    def __call__(self, policy, batch):
        logits, values = policy.unroll(
            batch.seen[None], (), jnp.zeros((1, batch.seen.shape[0]), bool)
        )
        return jnp.mean((values - 1.0) ** 2) + jnp.mean(logits**2), {}, values[0]


def network():
    plain = ResidualActorCritic(SPEC, width=WIDTH, depth=DEPTH, key=jax.random.key(0))
    return add_auxiliary_head(plain, SPEC, key=jax.random.key(1))


@pytest.fixture(scope="module")
def steps():
    """The compiled gradient by name, and what it returns."""
    found = {}
    for name, (shape, remat, dtypes) in STEPS.items():
        step = GradientStep(optax.identity(), precision(dtypes), mesh(shape), remat=remat)
        learner = step.init(network(), IDENTITY_SCALE)
        learner = place(learner, fsdp_shardings(step.mesh, learner))
        given = learner, Errors(), Seen(jax.random.normal(jax.random.key(2), (8, 5)))
        program = eqx.filter_jit(step.gradient).lower(*given).compile()
        found[name] = program.compiled, program(*given)
    return found


@pytest.mark.parametrize("name", ["whole", "blocks", "recomputed", "bf16"])
def test_the_gradient_is_that_of_one_device(steps, name):
    (gradient, _, values), (expected, _, others) = steps[name][1], steps["alone"][1]
    exact = 0.1 if name == "bf16" else 1e-5
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert np.linalg.norm(a - b) <= exact * max(np.linalg.norm(b), 1e-3)
    np.testing.assert_allclose(values[0], others[0], atol=exact)
    if name != "whole":
        widen = blocks_of(gradient).widen.weight
        assert (
            widen.addressable_shards[0].data.size == widen.size // widen.sharding.mesh.shape["fsdp"]
        )


@pytest.mark.parametrize("name", ["blocks", "recomputed"])
def test_a_device_has_one_block_at_a_time_and_only_its_part_of_the_gradient(steps, name):
    sent = collectives(steps[name][0].as_text(), 4)
    block = 4 * WIDTH * WIDTH
    gathers = [each for each in sent if each.kind == "all-gather" and each.times == DEPTH]
    # Two layers, for the loss and again for its gradient.
    assert [each.result_bytes for each in gathers] == [4 * block] * 4
    assert sum(each.times for each in sent if each.kind == "reduce-scatter") == 2 * DEPTH
    assert max(each.result_bytes for each in sent if each.kind != "all-reduce") <= 4 * block


def test_the_memory_does_not_grow_by_the_network(steps):
    whole, cut = (
        steps[name][0].memory_analysis().temp_size_in_bytes for name in ("whole", "blocks")
    )
    network = 2 * DEPTH * 4 * WIDTH * WIDTH * 4
    assert whole > 2 * network  # the parameters and their gradient
    assert cut < network


def test_parameters_that_do_not_fit_the_axis_stay_whole():
    """Here 8 devices would have one block each, and no array of one block divides by 8."""
    odd = ResidualActorCritic(SPEC, width=9, depth=8, expansion=55, key=jax.random.key(0))
    found = by_block(mesh("fsdp=8"), odd)
    assert found is not None
    assert set(found.axes) == {None}
    assert by_block(mesh("data=8"), odd) is None
    assert by_block(mesh("fsdp=8"), odd.heads) is None


def test_recomputed_blocks_are_in_a_loop_even_where_plain_ones_are_not():
    """Without a loop the compiler merges what is computed twice, and nothing is saved."""
    spec = EnvSpec(3, SPEC.observation, lambda seen: Features(seen, seen.reshape(1, 5, 1)))
    policy = ResNetActorCritic(spec, width=8, depth=3, key=jax.random.key(0))
    seen = jnp.zeros((1, 2, 5), jnp.float32)

    def loops(remat):
        unroll = rematerialized(policy, remat).unroll
        traced = jax.make_jaxpr(unroll)(seen, (), jnp.zeros((1, 2), bool))
        found = [each for each in equations(traced) if each.primitive.name == "scan"]
        return [each.params["length"] for each in found if each.params["unroll"] == 1]

    assert 3 in loops("blocks")
    assert 3 not in loops("none")
