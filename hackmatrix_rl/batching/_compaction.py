"""Going through the few members of a long row of flags."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree

from hackmatrix_rl.batching._bits import (
    nth_bit,
    size_of,
)

Value = TypeVar("Value", bound=PyTree)


class Chunk(NamedTuple):
    """Some of the members, in order.

    Attributes:
        first: how many of them came before.
        places: where they are; 0 beyond the last one.
        valid: which of these are members, and not beyond the last one.
    """

    first: Int32[Array, ""]
    places: Int32[Array, " chunk"]
    valid: Bool[Array, " chunk"]


def for_each_chunk(
    members: Bool[Array, " size"],
    width: int,
    body: Callable[[Chunk, Value], Value],
    value: Value,
) -> Value:
    """Hands the members to `body`, so many at a time; it takes as long as there are members.

    Args:
        members: the flags.
        width: of a chunk.
        body: from some of the members and a value to the next value.
        value: the first one.

    Returns:
        The last value.
    """
    # `jnp.nonzero` takes ten times as long: it scatters every flag. Here 32 flags are a word,
    # members are counted up to each word, and a member is looked for in its word.
    bits = jnp.pad(members, (0, -members.shape[0] % 32)).reshape(-1, 32).astype(jnp.uint32)
    places_of_bits = np.arange(32, dtype=np.uint32)[None, :]
    words = jnp.sum(bits << places_of_bits, axis=1, dtype=jnp.uint32)
    in_word = size_of(words)
    up_to = jnp.cumsum(in_word, dtype=jnp.int32)
    count = up_to[-1]

    def one(number: Int32[Array, ""], value: Value) -> Value:
        first = number * width
        nth = first + jnp.arange(width, dtype=jnp.int32)
        valid = nth < count
        nth = jnp.where(valid, nth, 0)
        word = jnp.searchsorted(up_to, nth, side="right").astype(jnp.int32)
        word = jnp.minimum(word, words.size - 1)  # without a member there is none to be found
        place = 32 * word + nth_bit(words[word], nth - (up_to - in_word)[word])
        return body(Chunk(first, jnp.where(valid, place, 0), valid), value)

    return jax.lax.fori_loop(0, (count + width - 1) // width, one, value)
