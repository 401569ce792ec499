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
    """Arrays of a network that are not parameters: running statistics, constants.

    Wrap each floating-point array of this kind in it, NumPy arrays included. The arrays get no
    gradient and no optimizer state, and no precision policy casts them. A checkpoint stores them
    like all other arrays. Integers, booleans and random keys need no wrapper.
    """

    value: PyTree  #: The arrays.


def split_trainable(module: M) -> tuple[M, M]:
    """Splits a module into its parameters and the rest. `eqx.combine` joins them again.

    Parameters are the floating-point (and complex) arrays outside of every `NonTrainable`.

    Returns:
        Two modules of the same structure. Each has `None` where the other has a leaf.
    """
    which = jax.tree.map(
        eqx.is_inexact_array,  # false for a whole `NonTrainable`
        module,
        is_leaf=lambda node: isinstance(node, NonTrainable),
    )
    parameters, rest = eqx.partition(module, which)
    return parameters, rest


def parameters_of(module: M) -> M:
    """The module with `None` in place of everything that is not a parameter."""
    return split_trainable(module)[0]


def parameter_paths(module: PyTree) -> dict[str, jax.Array]:
    """A module's parameters by name, for instance `.layers[0].weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(parameters_of(module))
    return {path_name(path): leaf for path, leaf in leaves}


def path_name(path: tuple[Any, ...]) -> str:
    """The name of an array from its path in a tree, for instance `.layers[0].weight`.

    Checkpoints and the patterns of precision policies use these names. The name leaves out the
    field `headless` of `WithAuxiliaryHead`, so a network has the same names with an auxiliary head
    and without one.
    """
    return jax.tree_util.keystr(tuple(key for key in path if key != HEADLESS))


def accumulate_in_float32(module: M) -> tuple[M, Callable[[M], M]]:
    """A module with its parameters in float32 for a loop, and the function that narrows it again.

    The gradient of a parameter that a loop uses is a sum over the loop's steps, in the dtype that
    enters the loop. A long sum of 16-bit numbers loses small terms. So 16-bit parameters enter
    the loop as float32, which is exact, and each step narrows them again.
    """
    parameters, rest = split_trainable(module)
    dtypes = jax.tree.map(lambda leaf: leaf.dtype, parameters)

    def widened(leaf: jax.Array) -> jax.Array:
        narrow = jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize < 4
        return leaf.astype(jnp.float32) if narrow else leaf

    def narrow(wide: Any) -> M:
        parameters, rest = split_trainable(wide)
        back = jax.tree.map(lambda leaf, dtype: leaf.astype(dtype), parameters, dtypes)
        return eqx.combine(back, rest)

    wide: M = eqx.combine(jax.tree.map(widened, parameters), rest)
    return wide, narrow
