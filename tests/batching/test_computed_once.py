"""`computed_once`: the same values as without it, alone and in a batch."""

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.batching import computed_once


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
