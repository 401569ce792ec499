"""Loops that work on the games that need it do what they would do on one game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.system.batching import (
    first_indices,
    first_success,
    one_round_loop,
    sparse_while_loop,
)
from hackmatrix_rl.system.batching._sparse import _MOST_PAIRED


def collatz(number, _):
    return jnp.where(number % 2 == 0, number // 2, 3 * number + 1)


def steps_to_one(loop, **how):
    def count(number, bonus):
        def body(carry, bonus):
            steps, number = carry
            return steps + bonus, collatz(number, None)

        return loop(lambda c, _: c[1] != 1, body, (jnp.int32(0), number), bonus, **how)[0]

    return count


def expected(number, bonus):
    steps = 0
    while number != 1:
        number, steps = number // 2 if number % 2 == 0 else 3 * number + 1, steps + bonus
    return steps


@pytest.mark.parametrize(
    ("loop", "how"),
    [
        (sparse_while_loop, {"shares": (1,)}),
        (sparse_while_loop, {"shares": (8,)}),
        (sparse_while_loop, {"shares": (1, 4, 16)}),
        (one_round_loop, {"share": 8}),
        (one_round_loop, {"share": 1000}),
    ],
)
def test_a_batch_goes_as_each_game_alone(loop, how):
    numbers, bonus = np.arange(1, 71), np.arange(70) % 3
    wanted = [expected(n, b) for n, b in zip(numbers, bonus, strict=True)]
    count = steps_to_one(loop, **how)
    batch = jax.jit(jax.vmap(count))(jnp.asarray(numbers, jnp.int32), jnp.asarray(bonus, jnp.int32))
    np.testing.assert_array_equal(batch, wanted)
    assert count(jnp.int32(27), jnp.int32(1)) == expected(27, 1)
    shared = jax.vmap(count, in_axes=(0, None))(jnp.asarray(numbers, jnp.int32), jnp.int32(1))
    np.testing.assert_array_equal(shared, [expected(n, 1) for n in numbers])


@pytest.mark.parametrize("size", [1, 31, 32, 40, 100, 32 * _MOST_PAIRED, 32 * _MOST_PAIRED + 40])
def test_the_first_members_are_found_in_order(size):
    rng = np.random.default_rng(size)
    for share in (0.0, 0.1, 0.6, 1.0):
        members = rng.random(size) < share
        for width in (1, 7, min(size, 1000)):
            places = np.flatnonzero(members)[:width]
            wanted = np.pad(places, (0, width - len(places)), constant_values=size)
            found = first_indices(jnp.asarray(members), width)
            np.testing.assert_array_equal(found, wanted)


def test_a_batch_of_millions_is_traced_without_pairs_of_its_words():
    millions = jax.ShapeDtypeStruct((2**24,), bool)
    assert jax.eval_shape(lambda members: first_indices(members, 8), millions).shape == (8,)


def test_the_first_attempt_that_succeeds_counts():
    def attempt(number, threshold):
        return number * 3 % 7 > threshold, number

    def run(threshold):
        return first_success(attempt, jnp.int32(1), threshold, count=6)

    thresholds = jnp.arange(7, dtype=jnp.int32)
    found, number = jax.vmap(run)(thresholds)
    for threshold in range(7):
        winners = [n for n in range(1, 7) if n * 3 % 7 > threshold]
        assert found[threshold] == bool(winners)
        assert number[threshold] == (winners[0] if winners else 6)
        assert run(jnp.int32(threshold))[1] == number[threshold]
