"""Linear maps that multiply what has to be, beside the plain product."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent.networks._sparse_first_layer import (
    add_nonzeros,
    gradient_of_nonzeros,
    gradient_of_runs,
    product_of_runs,
    starts_of_runs,
)
from hackmatrix_rl.batching import for_each_chunk

# Of 37 rows, how many begin a run: the only one, some, more than fit into one chunk, all.
STARTS = {"one": [0], "some": [0, 3, 20, 21], "many": range(0, 37, 2), "all": range(37)}


@pytest.mark.parametrize("size", [1, 37, 64, 1000])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.6, 1.0])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_members_come_in_order_and_each_once(size, share, width):
    members = np.random.default_rng(0).random(size) < share

    @jax.jit
    def collect(members):
        def body(chunk, found):
            count, places, rounds = found
            there = jnp.where(chunk.valid, chunk.first + jnp.arange(width, dtype=jnp.int32), size)
            places = places.at[there].set(chunk.places, mode="drop")
            # Places beyond the last member are 0.
            wrong = jnp.sum(jnp.where(chunk.valid, 0, chunk.places), dtype=jnp.int32)
            count = count + jnp.sum(chunk.valid, dtype=jnp.int32) + wrong
            return count, places, rounds + 1

        start = jnp.int32(0), jnp.full(size, -1, jnp.int32), jnp.int32(0)
        return for_each_chunk(members, width, body, start)

    count, places, rounds = collect(jnp.asarray(members))
    assert count == members.sum()
    assert rounds == -(-members.sum() // width)
    np.testing.assert_array_equal(places[:count], np.flatnonzero(members))


def rows_with(starts):
    number = jnp.cumsum(jnp.zeros(37, jnp.int32).at[np.array(starts)].set(1), dtype=jnp.int32)
    return {"digits": jnp.stack([number // place % 4 for place in (16, 4, 1)], axis=1)}


def encode(row):
    hot = jax.nn.one_hot(row["digits"], 4, dtype=jnp.float32)
    return jnp.concatenate([hot.ravel(), row["digits"].astype(jnp.float32)])


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_product_of_runs_and_its_gradient_are_those_of_every_row_alone(starts, dtype):
    rows = rows_with(starts)
    weight = jax.random.normal(jax.random.key(0), (15, 5), jnp.float32).astype(dtype)
    change = jax.random.normal(jax.random.key(1), (37, 5), jnp.float32)
    found = starts_of_runs(rows)
    np.testing.assert_array_equal(np.flatnonzero(found), list(starts))

    every = jax.vmap(encode)(rows)
    product = product_of_runs(encode, rows, found, weight)
    assert product.dtype == dtype
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == jnp.float32 else {"rtol": 2e-2, "atol": 0.1}
    np.testing.assert_allclose(
        product.astype(np.float32), (every.astype(dtype) @ weight).astype(np.float32), **close
    )
    gradient = gradient_of_runs(encode, rows, found, change)
    np.testing.assert_allclose(gradient, every.T @ change, rtol=1e-5, atol=1e-5)


def test_of_a_run_the_first_row_alone_is_encoded():
    rows = jnp.arange(6, dtype=jnp.int32)
    starts = jnp.array([True, False, False, True, True, False])
    product = product_of_runs(
        lambda row: row[None].astype(jnp.float32), rows, starts, jnp.ones((1, 1), jnp.float32)
    )
    assert product[:, 0].tolist() == [0, 0, 0, 3, 4, 4]


def show(words):
    """Three features of a word, of which none, some or all are not 0."""
    return jnp.stack([words & 1, words >> 1 & 1, words >> 2], axis=1).astype(jnp.float32)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_product_of_what_is_not_zero_and_its_gradient_are_those_of_everything(share, dtype):
    draw = np.random.default_rng(0)
    words = draw.integers(1, 32, (37, 6)) * (draw.random((37, 6)) < share)
    words = jnp.asarray(words, jnp.uint32)
    weight = jax.random.normal(jax.random.key(0), (18, 5), jnp.float32).astype(dtype)
    sums, change = jax.random.normal(jax.random.key(1), (2, 37, 5), jnp.float32)

    every = jax.vmap(show)(words).reshape(37, 18)
    np.testing.assert_allclose(
        jax.jit(lambda *given: add_nonzeros(show, *given))(words, weight, sums),
        sums + every @ weight.astype(jnp.float32),
        rtol=1e-5,
        atol=1e-4,
    )
    gradient = jax.jit(lambda *given: gradient_of_nonzeros(show, *given))(words, change)
    np.testing.assert_allclose(gradient, every.T @ change, rtol=1e-5, atol=1e-4)
