"""Sums over calls one after another, in the memory of one call."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

X = TypeVar("X")
Sums = TypeVar("Sums")
Rest = TypeVar("Rest")


def add_up(function: Callable[[X], tuple[Sums, Rest]], inputs: X) -> tuple[Sums, Rest]:
    """Calls a function on one input after another, in a scan: one call's memory is enough.

    Args:
        function: from an input to arrays that are added up, and arrays that are kept.
        inputs: arrays with a leading axis to go along.

    Returns:
        The sums, and the arrays that are kept, stacked.
    """
    first = jax.tree.map(lambda leaf: leaf[0], inputs)
    shapes, _ = eqx.filter_eval_shape(function, first)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def add(sums: Any, one: X) -> tuple[Any, Rest]:
        found, rest = function(one)
        return jax.tree.map(jnp.add, sums, found), rest

    added: tuple[Sums, Rest] = jax.lax.scan(add, nothing, inputs)
    return added
