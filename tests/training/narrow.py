"""Reads a traced program for arithmetic in 16-bit floats that is not a network's layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hackmatrix_rl.agent.precision import equations, products
from hackmatrix_rl.training import Trainer

# What a layer and its gradient are made of: the products, the rectifier, sums of two terms,
# and what moves numbers about without computing.
LAYERS = {
    *("add", "add_any", "all_gather", "broadcast_in_dim", "concatenate", "conv_general_dilated"),
    *("convert_element_type", "copy", "dot_general", "dynamic_slice", "dynamic_update_slice"),
    *("empty2", "gather", "gt", "max", "mul", "optimization_barrier", "pad", "reshape", "rev"),
    *("select_n", "sharding_constraint", "slice", "split", "squeeze", "stop_gradient", "transpose"),
}
# What holds other programs; these are read in turn.
HOLDERS = {
    *("checkpoint", "closed_call", "cond", "custom_jvp_call", "custom_vjp_call", "jit", "pjit"),
    *("remat2", "shard_map"),
}
LOOPS = {"scan", "while"}


def traced_update(trainer: Trainer) -> Any:
    """The program of one update of everything that a run does; nothing is compiled."""
    state, rest = eqx.partition(trainer.abstract_state(), lambda leaf: hasattr(leaf, "dtype"))

    def update(state: Any) -> Any:
        return eqx.filter(trainer.algorithm(eqx.combine(state, rest)), eqx.is_array)

    return jax.make_jaxpr(update)(state)


def is_narrow(value: Any) -> bool:
    dtype = getattr(value.aval, "dtype", None)
    if dtype is None or jnp.issubdtype(dtype, jax.dtypes.extended):
        return False
    return bool(jnp.issubdtype(dtype, jnp.floating)) and dtype.itemsize < 4


def narrow_arithmetic(jaxpr: Any) -> set[str]:
    """The operations on 16-bit floats beyond a network's layers, in a program and all within.

    A loop that carries a 16-bit float from step to step is one: it sums or decays in it.
    """
    found = set()
    for equation in equations(jaxpr):
        name = equation.primitive.name
        if name in LOOPS:
            if any(is_narrow(value) for value in _carried(equation)):
                found.add(f"{name} carries")
        elif name not in HOLDERS | LAYERS and any(
            is_narrow(value) for value in [*equation.invars, *equation.outvars]
        ):
            found.add(name)
    return found


def narrow_products(jaxpr: Any) -> int:
    """The number of matrix products and convolutions whose operands all have 16 bits."""
    narrow = (jnp.bfloat16, jnp.float16)
    return sum(all(dtype in narrow for dtype in each) for each in products(jaxpr))


def _carried(equation: Any) -> list[Any]:
    if equation.primitive.name == "scan":
        return equation.outvars[: equation.params["num_carry"]]
    return equation.outvars
