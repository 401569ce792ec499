"""What is computed side by side, and what once: as each game alone gives it."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.system.batching import computed_once, flat_vmap, one_round_loop

GAMES, VARIANTS = 7, 3


def counted(each, shared):
    """Counts up to the variant's number plus that of the game, in a loop of its own length."""
    variant, start = each
    goal, rows = shared

    def goes_on(state, goal):
        return state[0] < goal

    def one(state, goal):
        return state[0] + 1, state[1] + 2

    count, double = one_round_loop(goes_on, one, (start, start * 0), goal + variant, share=4)
    return {"count": count, "sum": rows * double}


def test_a_batch_of_games_gives_what_each_game_gives():
    variants = jnp.arange(VARIANTS, dtype=jnp.int32)
    starts = jnp.zeros((GAMES, VARIANTS), jnp.int32)
    goals = jnp.arange(GAMES, dtype=jnp.int32)
    rows = jnp.arange(GAMES * 2, dtype=jnp.int32).reshape(GAMES, 2)

    def one(starts, goal, row):
        return flat_vmap(counted, (variants, starts), (goal, row))

    together = jax.jit(jax.vmap(one))(starts, goals, rows)
    assert together["count"].shape == (GAMES, VARIANTS)
    assert np.array_equal(together["count"], goals[:, None] + variants[None, :])
    assert np.array_equal(together["sum"], 2 * together["count"][:, :, None] * rows[:, None, :])
    for game in range(GAMES):
        alone = jax.jit(one)(starts[game], goals[game], rows[game])
        for name, found in alone.items():
            assert np.array_equal(found, together[name][game])


def test_what_all_games_share_is_not_copied():
    """A network of a search would be copied for every imagined game."""

    def weigh(count, weights):
        return count + jnp.sum(weights > count.astype(jnp.float32), dtype=jnp.int32)

    def variant(each, shared):
        goal, weights = shared
        return one_round_loop(
            lambda count, given: count < given[0],
            lambda count, given: weigh(count, given[1]),
            each,
            (goal, weights),
            share=4,
        )

    def one(goal, weights):
        return flat_vmap(variant, jnp.arange(VARIANTS, dtype=jnp.int32), (goal, weights))

    goals, weights = jnp.arange(GAMES, dtype=jnp.int32), jnp.full(97, 100.0)
    every = jax.vmap(one, in_axes=(0, None))
    text = str(jax.make_jaxpr(every)(goals, weights))
    assert "f32[97]" in text
    assert not re.search(r"f32\[(?!1,)[0-9,]+,97\]", text)
    alone = [one(goal, weights) for goal in goals]
    assert np.array_equal(every(goals, weights), np.stack(alone))


def _sums(given):
    words, factor = given
    return {"sums": jnp.cumsum(words) * factor, "any": words.any()}


def test_it_computes_the_same_in_a_batch():
    words = jnp.arange(-6, 18, dtype=jnp.int32).reshape(4, 6)
    given = (words, jnp.arange(4, dtype=jnp.int32))
    plain = jax.vmap(_sums)(given)
    once = jax.jit(jax.vmap(lambda each: computed_once(_sums, each)))(given)
    jax.tree.map(np.testing.assert_array_equal, once, plain)


def test_what_follows_it_has_gradients():
    words = jnp.array([3, -1, 2], jnp.int32)

    def loss(weight):
        sums = computed_once(_sums, (words, jnp.int32(2)))["sums"]
        return jnp.sum(weight * sums.astype(jnp.float32))

    np.testing.assert_array_equal(jax.grad(loss)(jnp.ones(3)), [6, 4, 8])


def test_it_stays_a_loop_in_the_compiled_program():
    words = jnp.zeros((8, 6), jnp.int32)
    given = (words, jnp.zeros(8, jnp.int32))
    program = jax.jit(jax.vmap(lambda each: computed_once(_sums, each))).lower(given).compile()
    assert " while(" in program.as_text(), "XLA took the barrier away"
