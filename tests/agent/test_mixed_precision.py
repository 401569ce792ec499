import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import precision


class Module(eqx.Module):
    weight: jax.Array
    steps: jax.Array
    key: jax.Array
    name: str


def module() -> Module:
    weight = jnp.array([1.0, 2.0, 1.001], jnp.float32)
    return Module(weight, jnp.int32(3), jax.random.key(0), "mine")


def test_only_floating_point_arrays_are_cast():
    cast = precision("bf16").cast_to_compute(module())
    assert cast.weight.dtype == jnp.bfloat16
    assert cast.steps.dtype == jnp.int32
    assert cast.key.dtype == module().key.dtype
    assert cast.name == "mine"


def test_under_f32_nothing_changes():
    np.testing.assert_array_equal(
        precision("f32").cast_to_compute(module()).weight, module().weight
    )


@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_gradients_come_in_the_dtype_of_the_parameters(name):
    seen = []

    def loss(m, scale):
        seen.append(m.weight.dtype)
        return scale * jnp.sum(m.weight.astype(jnp.float32) ** 2), {"dtype": m.weight}

    gradient, aux = precision(name).grad(loss)(module(), jnp.float32(0.5))
    compute = {"f32": jnp.float32, "bf16": jnp.bfloat16}[name]
    assert set(seen) == {jnp.dtype(compute)}
    assert gradient.weight.dtype == jnp.float32
    assert gradient.steps is None
    assert aux["dtype"].dtype == compute
    np.testing.assert_allclose(gradient.weight, module().weight, rtol=0.01)


def test_without_loss_scaling_there_is_no_state():
    policy = precision("bf16")
    assert policy.initial_scaling() == ()
    assert policy.adjust((), jnp.array(True)) == ()


def test_an_unknown_precision_is_a_clear_error():
    with pytest.raises(ValueError, match="f32, bf16"):
        precision("f8")
