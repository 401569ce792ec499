"""Bits of 32-bit words, and selection without a gather, which is many times slower in a batch.

The functions on words call XLA operations directly. Tracing an array operator takes ten times as
long, and a step of the game has thousands.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, PyTree, Shaped, UInt32

from hackmatrix_rl.system.batching._device import avoids_rounds

Tree = TypeVar("Tree", bound=PyTree)


def select(condition: Bool[Array, ""], yes: Tree, no: Tree) -> Tree:
    """`yes` if `condition` holds, else `no`. A leaf that both share costs nothing."""
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), yes, no)


def pick(chosen: Bool[Array, " n"], values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
    """The value of the chosen entry, or 0 without one. Values must not be negative."""
    return jnp.max(jnp.where(chosen, values, jnp.zeros_like(values)))


def only_first(flags: Bool[Array, " n"]) -> Bool[Array, " n"]:
    """Clears all flags but the first set one: [0 1 0 1] -> [0 1 0 0]."""
    places = np.arange(flags.shape[-1], 0, -1, dtype=np.int32)
    places_left = jnp.where(flags, places, 0)  # `argmax` takes several times as long on a CPU
    return flags & (places_left == jnp.max(places_left))


def ranks(flags: Bool[Array, " n"]) -> Int32[Array, " n"]:
    """Number of set flags before each place: [0 1 1 0 1] -> [0 0 1 2 2]."""
    count = flags.shape[-1]
    if count <= 32:
        return size_of(union(jnp.where(flags, ONE_BIT[:count], 0)) & (ONE_BIT[:count] - 1))
    places = np.arange(count)
    earlier = places[None, :] < places[:, None]
    return jnp.sum(flags[None, :] & earlier, axis=1, dtype=jnp.int32)


Values = TypeVar("Values", bound=PyTree)


def left(words: UInt32[Array, "*shape"], places: int) -> UInt32[Array, "*shape"]:
    """Shifts words left."""
    return lax.shift_left(words, np.uint32(places))


def right(words: UInt32[Array, "*shape"], places: int) -> UInt32[Array, "*shape"]:
    """Shifts words right."""
    return lax.shift_right_logical(words, np.uint32(places))


def masked(words: UInt32[Array, "*shape"], mask: int) -> UInt32[Array, "*shape"]:
    """The bitwise and of words and a mask."""
    return lax.bitwise_and(words, np.uint32(mask))


def at_place(places: Int32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Words with a single set bit at `places`; 0 for a place that is negative or above 31."""
    return lax.shift_left(
        lax.full_like(places, 1, jnp.uint32), lax.convert_element_type(places, jnp.uint32)
    )


def has_any(words: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Whether words have a set bit."""
    return lax.ne(words, np.uint32(0))


def size_of(bits: UInt32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Number of set bits."""
    return lax.convert_element_type(lax.population_count(bits), jnp.int32)


def bits_of(word: UInt32[Array, ""], count: int) -> Bool[Array, " count"]:
    """The lowest `count` bits of a word as flags, lowest first: 0b110 -> [0 1 1]."""
    return ((word >> np.arange(count, dtype=np.uint32)) & 1) != 0


def words_of_flags(
    flags: Bool[Array, " size"],
) -> tuple[UInt32[Array, " words"], Bool[Array, "words 32"]]:
    """Packs 32 flags per word, lowest bit first. Also returns the padded flags by word."""
    by_word = jnp.pad(flags, (0, -flags.shape[0] % 32)).reshape(-1, 32)
    ones = jnp.where(by_word, ONE_BIT[None, :], np.uint32(0))
    return jnp.sum(ones, axis=1, dtype=jnp.uint32), by_word


def union(words: UInt32[Array, " n"]) -> UInt32[Array, ""]:
    """The bitwise or of all words."""
    return lax.reduce(words, np.uint32(0), lax.bitwise_or, (0,))


def nth_bit(bits: UInt32[Array, "*shape"], index: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """The place of the set bit with this index, from the lowest; 32 without one.

    nth_bit(0b10110, 1) -> 2
    """
    if avoids_rounds():  # a binary search has no reduction, so XLA fuses it into any kernel
        place = lax.full_like(index, 0)
        for width in (16, 8, 4, 2, 1, 1):
            here = (bits >> place.astype(jnp.uint32)) & ((1 << width) - 1)
            beyond = index >= size_of(here)
            index = jnp.where(beyond, index - size_of(here), index)
            place = jnp.where(beyond, place + width, place)
        return place
    # XLA computes a reduction once, and would repeat a binary search in every loop that reads it.
    up_to = bits[..., None] & _UP_TO.reshape((1,) * bits.ndim + (-1,))
    return jnp.sum(size_of(up_to) <= index[..., None], axis=-1, dtype=jnp.int32)


ONE_BIT = np.uint32(1) << np.arange(32, dtype=np.uint32)
"""A word for each place, with the bit at this place."""

_UP_TO = np.array([(2 << place) - 1 for place in range(32)], np.uint32)
"""A word for each place, with all bits up to and including this place."""


def materialize(values: Values) -> Values:
    """The same values behind an optimization barrier: XLA computes them once and stores them.

    Otherwise XLA repeats a cheap computation, and its inputs, in every loop that reads the result.
    On CPU, XLA removes the barrier after common subexpression elimination.
    """
    return lax.optimization_barrier(values)


def computed_once(compute: Callable[[Any], Any], given: Any) -> Any:
    """`compute(given)`, a pytree of integers or flags, computed once and stored, on CPU too.

    XLA fuses a cheap computation into its readers, and repeats it there for every element. On CPU
    it removes the barrier of `materialize`, but keeps a loop. The loop here has a single round,
    which XLA cannot infer. On a GPU this is `materialize`. `given` must have an array of integers.
    """
    if avoids_rounds():
        return materialize(compute(given))
    traced_once = jax.jit(compute)
    some = next(leaf for leaf in jax.tree.leaves(given) if jnp.issubdtype(leaf.dtype, jnp.integer))
    # Always 0, which XLA does not infer.
    start = jnp.minimum(some.ravel()[0].astype(jnp.int32) & 1, 0)
    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(traced_once, given)
    )
    _, result = lax.while_loop(
        lambda carry: carry[0] < 1, lambda carry: (carry[0] + 1, traced_once(given)), (start, empty)
    )
    return result
