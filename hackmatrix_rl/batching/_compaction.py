"""A loop over the few true flags of a long row."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PyTree

from hackmatrix_rl.batching._bits import nth_bit, size_of, words_of_flags

Value = TypeVar("Value", bound=PyTree)


class Chunk(NamedTuple):
    """Some of the members, in order.

    Attributes:
        first: number of members before this chunk.
        places: the places of this chunk's members; 0 after the last one.
        valid: whether each of these is a member, and not a filler after the last one.
    """

    first: Int32[Array, ""]
    places: Int32[Array, " chunk"]
    valid: Bool[Array, " chunk"]


def for_each_chunk(
    members: Bool[Array, " size"], width: int, body: Callable[[Chunk, Value], Value], value: Value
) -> Value:
    """Hands the members (the places of true flags) to `body`, a chunk at a time.

    The time grows with the number of members, not with the number of flags.

    Args:
        members: the flags.
        width: members of a chunk.
        body: from some of the members and a value to the next value.
        value: the first one.

    Returns:
        The last value.
    """
    # `jnp.nonzero` takes ten times as long: it scatters every flag. Here 32 flags are a word. The
    # loop finds the word of a member by the number of members up to each word, then its bit.
    words, _ = words_of_flags(members)
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
