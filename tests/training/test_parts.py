"""The small parts of the trainer."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hackmatrix_rl.training import Constant, Counter, Linear, Minibatches, adam


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Minibatches(8, 1)(100, key=jax.random.key(0)), "use 96"),
        (lambda: Linear(1.0, 0.0, 0), "at least 1 step"),
        (lambda: adam(0.0), "max_grad_norm"),
    ],
)
def test_what_cannot_work_is_an_error(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_schedules_are_float32_functions_of_environment_steps():
    steps = jnp.array([0.0, 50.0, 100.0, 1e9], jnp.float32)
    line = jax.vmap(Linear(1.0, 0.5, 100))(steps)
    np.testing.assert_allclose(line, [1.0, 0.75, 0.5, 0.5])
    assert line.dtype == jnp.float32
    np.testing.assert_array_equal(jax.vmap(Constant(3.0))(steps), 3.0)


@pytest.mark.parametrize("start", [0, 2**31 - 1, 2**32 - 5, 7 * 2**32 + 2**32 - 1])
def test_a_counter_counts_beyond_32_bits(start):
    counter = jax.jit(lambda c: c.add(32768))(Counter.of(start))
    assert int(counter) == start + 32768
    assert counter.as_float() == pytest.approx(start + 32768, rel=1e-6)


def test_adam_has_rate_one_and_shortens_long_gradients():
    optimizer = adam(max_grad_norm=0.5)
    weights = {"w": jnp.zeros(2, jnp.float32)}
    with jax.numpy_dtype_promotion("standard"):
        state = optimizer.init(weights)
        change, after = optimizer.update({"w": jnp.array([300.0, -400.0])}, state, weights)
    np.testing.assert_allclose(change["w"], [-1.0, 1.0], rtol=1e-3)
    first_moment = optax.tree.get(after, "mu")["w"]
    np.testing.assert_allclose(first_moment, [0.03, -0.04], rtol=1e-4)
