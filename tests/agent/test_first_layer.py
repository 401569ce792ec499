"""The first layer of the MLP on HackMatrix, beside the plain product of all features."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import Batch, PPOLoss
from hackmatrix_rl.agent.networks import MLPActorCritic, evaluator_of
from hackmatrix_rl.agent.networks._sparse_first_layer import (
    SparseFirstLayerEvaluator,
    product_of_next,
    starts_of_runs,
)
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.env import CartPole, CompactObservation, HackMatrix
from hackmatrix_rl.training import Reports
from hackmatrix_rl.training._debug import CheckedLoss

pytestmark = pytest.mark.devices


@pytest.fixture(scope="module")
def spec():
    return HackMatrix().spec


def observations(steps, games, things=0.1):
    """Of boards that stay for some steps, all else drawn anew; things move on a share of cells."""
    draw = np.random.default_rng(0)
    shape = (steps, games)
    board = draw.integers(0, 2**18, (*shape, 36)) * draw.integers(0, 2, (*shape, 36))
    stays = draw.integers(0, 4, shape) > 0
    for step in range(1, steps):
        board[step] = np.where(stays[step][:, None], board[step - 1], board[step])
    rest = draw.integers(0, 2**14, (*shape, 36)) * (draw.random((*shape, 36)) < things)
    return CompactObservation(
        numbers=jnp.asarray(draw.integers(0, 6, (*shape, 12)), jnp.int32),
        programs=jnp.asarray(draw.integers(0, 2**23, shape), jnp.uint32),
        grid=jnp.asarray(board | rest << 18, jnp.uint32),
    )


def at(seen, *place):
    return jax.tree.map(lambda leaf: leaf[place], seen)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_parts_of_the_features_are_all_of_them(spec):
    split = spec.split
    one = at(observations(1, 1, things=1.0), 0, 0)
    every = np.asarray(spec.encode(one).ravel())
    columns = split.columns(one)
    np.testing.assert_array_equal(split.static(one), every[columns.static])
    np.testing.assert_array_equal(split.show(split.sparse(one)).ravel(), every[columns.sparse])
    np.testing.assert_array_equal(split.others(one), every[columns.others])
    np.testing.assert_array_equal(np.sort(np.concatenate(columns)), np.arange(every.size))
    assert columns.static.size > 2 * columns.sparse.size > 10 * columns.others.size
    # What lasts is decided by what is said to decide it, and where there is no thing is nothing.
    bare = eqx.tree_at(lambda seen: seen.grid, one, split.seen(one))
    np.testing.assert_array_equal(split.static(bare), every[columns.static])
    assert not split.show(split.sparse(bare)).any()


@eqx.filter_jit
def unrolled(policy, seen):
    return evaluator_of(policy).unroll(seen, (), jnp.zeros((20, 3), bool))


@eqx.filter_jit
def one_by_one(policy, seen):
    return jax.vmap(jax.vmap(lambda one: policy(one, ())[:2]))(seen)


@eqx.filter_jit
@eqx.filter_grad
def gradient(policy, seen, evaluate):
    logits, value = evaluate(policy, seen)
    return jnp.mean(logits**2) + jnp.mean(value**2)


@pytest.mark.parametrize("things", [0.0, 0.03, 1.0])
def test_the_network_gives_and_learns_the_same_as_step_by_step(spec, things):
    policy = MLPActorCritic(spec, width=32, key=jax.random.key(0))
    seen = observations(20, 3, things)
    boards = jnp.swapaxes(spec.split.seen(seen), 0, 1)
    assert 10 < starts_of_runs(boards.reshape(60, 36)).sum() < 40
    jax.tree.map(close, unrolled(policy, seen), one_by_one(policy, seen))
    jax.tree.map(close, *(gradient(policy, seen, each) for each in (unrolled, one_by_one)))
    narrow = precision("bf16").cast_to_compute(policy)
    for one, other in zip(unrolled(narrow, seen), one_by_one(narrow, seen), strict=True):
        np.testing.assert_allclose(one, other, atol=0.05)


def test_following_the_steps_is_calling_at_each(spec):
    policy = MLPActorCritic(spec, width=32, key=jax.random.key(0))
    evaluator = evaluator_of(policy)
    assert isinstance(evaluator, SparseFirstLayerEvaluator)
    # Of so many games more change at a step than are multiplied at a time.
    seen = observations(6, 40)
    # A start that is good for nothing: all that lasted is renewed.
    elsewhere = jax.tree.map(lambda leaf: leaf + leaf.dtype.type(1), at(seen, 0))
    for first in (at(seen, 0), elsewhere):
        cache = evaluator.init_cache(first)
        for step in (*range(6), 0):  # the first boards come back
            here = at(seen, step)
            logits, value, carry, cache = evaluator.act_step(here, (), cache)
            jax.tree.map(close, (logits, value, carry), jax.vmap(policy, (0, None))(here, ()))


def test_what_lasts_is_not_multiplied_again_where_it_has_not_changed(spec):
    policy = MLPActorCritic(spec, width=4, key=jax.random.key(0))
    split, weight = spec.split, policy.layers[0].weight
    seen = at(observations(1, 40), 0)
    cache = evaluator_of(policy).init_cache(seen)
    cache = eqx.tree_at(lambda cache: cache.product, cache, replace_fn=jnp.zeros_like)
    grid = seen.grid.at[7, 3].set(seen.grid[7, 3] ^ 1)
    seen = eqx.tree_at(lambda seen: seen.grid, seen, grid)
    _, after = product_of_next(split, seen, weight, cache)
    assert np.flatnonzero(after.product.any(axis=1)).tolist() == [7]


def test_under_debug_checks_the_gradient_is_the_same(spec):
    policy = MLPActorCritic(spec, width=8, key=jax.random.key(0))
    number = jnp.ones((5, 2), jnp.float32)
    batch = Batch(
        observation=observations(5, 2),
        mask=jnp.ones((5, 2, spec.num_actions), bool),
        action=jnp.zeros((5, 2), jnp.int32),
        log_prob=-3 * number,
        value=number,
        done=number > 1,
        initial_carry=(),
        advantage=number,
        value_target=number,
    )

    def gradient(loss):
        return eqx.filter_jit(eqx.filter_grad(loss, has_aux=True))(policy, batch)[0]

    def check(one, other):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)

    loss = PPOLoss(normalize_advantage=False)
    jax.tree.map(check, gradient(loss), gradient(CheckedLoss(loss, "checks", Reports())))


def test_a_spec_knows_its_number_of_features_and_refuses_the_split_of_another_encode(spec):
    with pytest.raises(ValueError, match=r"split is of another encode .*use split=None"):
        dataclasses.replace(spec, encode=lambda seen: spec.encode(seen))
    assert spec.num_features == spec.encode(at(observations(1, 1), 0, 0)).ravel().size
    assert CartPole().spec.num_features == 4
