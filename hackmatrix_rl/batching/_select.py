"""Selecting among values without a gather, which costs a batch many times as much."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree, Shaped

Tree = TypeVar("Tree", bound=PyTree)


def select(condition: Bool[Array, ""], yes: Tree, no: Tree) -> Tree:
    """`yes` if `condition` holds, else `no`; a leaf that both share costs nothing."""
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), yes, no)


def pick(chosen: Bool[Array, " n"], values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
    """The value of the one chosen entry, or 0 if none is chosen; no value may be negative."""
    return jnp.max(jnp.where(chosen, values, jnp.zeros_like(values)))


def only_first(flags: Bool[Array, " n"]) -> Bool[Array, " n"]:
    """Only the first flag that is set."""
    places = np.arange(flags.shape[-1], 0, -1, dtype=np.int32)
    places_left = jnp.where(flags, places, 0)  # `argmax` takes several times as long on a CPU
    return flags & (places_left == jnp.max(places_left))


def ranks(flags: Bool[Array, " n"]) -> Int32[Array, " n"]:
    """How many flags are set before each place."""
    places = np.arange(flags.shape[-1])
    earlier = places[None, :] < places[:, None]
    return jnp.sum(flags[None, :] & earlier, axis=1, dtype=jnp.int32)
