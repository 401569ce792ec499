"""Which arrays of a network are its parameters."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

M = TypeVar("M")

HEADLESS = jax.tree_util.GetAttrKey("headless")


class NonTrainable(eqx.Module):
    """Arrays that belong to a network and are no parameters: running statistics, constants.

    A network that holds floating-point arrays of this kind (NumPy's, too) keeps each in a
    field of this type. No gradient is taken with respect to them, the optimizer has no state
    for them, and no precision policy casts them; they are part of the checkpoint like
    everything else. Integers, booleans and random keys need no such mark.

    Attributes:
        value: the arrays.
    """

    value: PyTree


def split_trainable(module: M) -> tuple[M, M]:
    """A module's parameters, and all the rest; `eqx.combine` puts them together again.

    Parameters are the floating-point (and complex) arrays outside of any `NonTrainable`.

    Returns:
        Two modules like the one given, with `None` in place of what belongs to the other.
    """
    which = jax.tree.map(
        eqx.is_inexact_array,  # which a whole `NonTrainable` is not
        module,
        is_leaf=lambda node: isinstance(node, NonTrainable),
    )
    parameters, rest = eqx.partition(module, which)
    return parameters, rest


def parameters_of(module: M) -> M:
    """The module with `None` in place of everything that is no parameter."""
    return split_trainable(module)[0]


def parameter_paths(module: PyTree) -> dict[str, jax.Array]:
    """A module's parameters by their names: `.layers[0].weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(parameters_of(module))
    return {path_name(path): leaf for path, leaf in leaves}


def path_name(path: tuple[Any, ...]) -> str:
    """The name of an array by its path in a tree: `.layers[0].weight`.

    Patterns of precision policies and checkpoints name arrays by it. The field `headless` of
    `WithAuxiliaryHead` is left out: the names of a network are the same with a head and
    without one.
    """
    return jax.tree_util.keystr(tuple(key for key in path if key != HEADLESS))


def accumulate_in_float32(module: M) -> tuple[M, Callable[[M], M]]:
    """A module to take into a loop, and the way back to the one to compute with inside it.

    The gradient of what a loop uses in each of its steps is a sum over the steps, in the
    dtype of what was taken in: a long sum of 16-bit numbers loses its small terms. So 16-bit
    parameters go in as float32 (which is exact) and are narrowed again in each step.

    Returns:
        The module with float32 parameters, and the function that narrows it.
    """
    parameters, rest = split_trainable(module)
    dtypes = jax.tree.map(lambda leaf: leaf.dtype, parameters)

    def narrow(wide: Any) -> M:
        parameters, rest = split_trainable(wide)
        back = jax.tree.map(lambda leaf, dtype: leaf.astype(dtype), parameters, dtypes)
        narrowed: M = eqx.combine(back, rest)
        return narrowed

    wide: M = eqx.combine(jax.tree.map(_widened, parameters), rest)
    return wide, narrow


def _widened(leaf: jax.Array) -> jax.Array:
    narrow = jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize < 4
    return leaf.astype(jnp.float32) if narrow else leaf
