"""Calls a network in the dtype of its parameters."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.env import Encoder, EnvSpec
from hackmatrix_rl.errors import is_ours

M = TypeVar("M", bound=eqx.Module)


def compute_dtype(module: PyTree) -> np.dtype[Any]:
    """The narrowest floating-point dtype of a module's parameters; float32 without parameters."""
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(parameters_of(module))]
    real = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]
    return min(real, key=lambda dtype: dtype.itemsize, default=jnp.dtype(jnp.float32))


def encoding_in(module: M, dtype: Any) -> tuple[M, bool]:
    """A module whose encoders give features in a dtype, and whether it holds an encoder.

    An encoder, or a spec with one, may stand in any field of the module or of a module within,
    static or not.
    """
    found = False

    def copied(module: Any) -> Any:
        copy = object.__new__(type(module))
        for name, value in vars(module).items():
            object.__setattr__(copy, name, jax.tree.map(replaced, value, is_leaf=_is_node))
        return copy

    def replaced(node: Any) -> Any:
        nonlocal found
        if isinstance(node, Encoder):
            found = True
            return replace(node, dtype=dtype)
        if isinstance(node, EnvSpec):
            return replace(node, encode=replaced(node.encode))
        return copied(node) if isinstance(node, eqx.Module) else node

    encoding: M = copied(module)
    return encoding, found


def following_parameters(module: M) -> M:
    """A network with a trunk, with features in the dtype of its parameters."""
    dtype = compute_dtype(module)
    return module if dtype == jnp.float32 or is_ours(module) else encoding_in(module, dtype)[0]


def in_compute_dtype(call: Callable[..., Any]) -> Callable[..., Any]:
    """A network's `__call__` under jmp's rule: inputs in the compute dtype, results in float32.

    The carry stays float32. So does an observation from which an encoder makes the features.
    """

    @wraps(call)
    def called(network: Any, observation: PyTree, carry: PyTree) -> Any:
        dtype = compute_dtype(network)
        if dtype == jnp.float32:
            return call(network, observation, carry)
        network, encodes = encoding_in(network, dtype)
        if not encodes:
            observation = _cast(observation, jnp.float32, dtype)
        return _cast(call(network, observation, carry), dtype, jnp.float32)

    return called


def _is_node(value: Any) -> bool:
    return isinstance(value, Encoder | EnvSpec | eqx.Module)


def _cast(tree: PyTree, old: Any, new: Any) -> PyTree:
    """A tree with its arrays of one dtype in another."""

    def cast(leaf: Any) -> Any:
        return leaf.astype(new) if eqx.is_array(leaf) and leaf.dtype == old else leaf

    return jax.tree.map(cast, tree)
