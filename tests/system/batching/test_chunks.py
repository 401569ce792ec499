"""Loops over the members of a set, a chunk at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.system.batching import for_each_chunk


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
