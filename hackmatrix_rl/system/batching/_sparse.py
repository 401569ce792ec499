"""Loops and conditionals whose cost is proportional to the number of games that need them.

Under `jax.vmap`, `lax.cond` computes both branches for every game, and `lax.while_loop` runs
every game until the last one is done. This is wasteful if few games need a branch or another
round. The functions here gather those games into a smaller buffer, compute there, and scatter the
results back.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int32, PyTree

from hackmatrix_rl.system.batching._bits import (
    ONE_BIT,
    materialize,
    nth_bit,
    size_of,
    words_of_flags,
)
from hackmatrix_rl.system.batching._device import avoids_rounds, buffer_width, games_innermost

_MOST_PAIRED = 4096  # words that are compared in pairs: 16 MB of pairs, 131,072 games

Carry = TypeVar("Carry", bound=PyTree)
Each = TypeVar("Each", bound=PyTree)
Operands = TypeVar("Operands", bound=PyTree)
Result = TypeVar("Result", bound=PyTree)
Value = TypeVar("Value", bound=PyTree)


class Chunk(NamedTuple):
    """Consecutive members."""

    first: Int32[Array, ""]  #: Number of members before this chunk.
    places: Int32[Array, " chunk"]  #: The places of the members, padded with 0.
    valid: Bool[Array, " chunk"]  #: Whether each place is a member, not padding.


def for_each_chunk(
    members: Bool[Array, " size"], width: int, body: Callable[[Chunk, Value], Value], value: Value
) -> Value:
    """Folds `body` over chunks of `width` members, the places of set flags.

    `body` maps a chunk and a value to the next value. The time is proportional to the number of
    members, not of flags.
    """
    # `jnp.nonzero` scatters every flag, which takes ten times as long. Here a binary search over
    # the cumulative counts of 32-bit words finds the word of each member, and `nth_bit` its bit.
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
        word = jnp.minimum(word, words.size - 1)  # out of range without a member
        place = 32 * word + nth_bit(words[word], nth - (up_to - in_word)[word])
        return body(Chunk(first, jnp.where(valid, place, 0), valid), value)

    return jax.lax.fori_loop(0, (count + width - 1) // width, one, value)


def flat_vmap(function: Callable[[Each, Operands], Result], each: Each, shared: Operands) -> Result:
    """`function(each[n], shared)` for every n, stacked along the first axis.

    In a batch of games, the variants of all games become one flat batch. Nested `jax.vmap` would
    make the variants an inner axis, so that the loops of this module would gather among the few
    variants of each game. Arrays that all games share are not copied.
    """

    @custom_vmap
    def run(each: Each, shared: Operands) -> Result:
        return jax.vmap(function, in_axes=(0, None))(each, shared)

    @run.def_vmap
    def run_batch(size: int, batched: PyTree, each: Each, shared: Operands) -> PyTree:
        each = jax.tree.map(partial(_spread, size), each, batched[0])
        count = jax.tree.leaves(each)[0].shape[1]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), each)
        # Arrays that all games share, such as a network, are not copied for each variant.
        own, common = eqx.partition(shared, batched[1])
        repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=0), own)
        results = jax.vmap(lambda one, own: function(one, eqx.combine(own, common)))(flat, repeated)
        results = jax.tree.map(lambda leaf: leaf.reshape(size, count, *leaf.shape[1:]), results)
        return results, jax.tree.map(lambda _: True, results)

    return run(each, shared)


def sparse_while_loop(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    *,
    shares: tuple[int, ...],
) -> Carry:
    """`jax.lax.while_loop` that in a batch computes no rounds for finished games.

    A round updates the carry and only reads the operands. `shares` are the widths of the buffers,
    as divisors of the batch size. With `(1, 8)`, all games go through rounds together until at most
    an eighth is unfinished, and these continue in a buffer of an eighth of the width. With the last
    width, buffers are processed sequentially until no game is unfinished.
    """

    def batched(keep_going: Any, body: Any, carry: Carry, operands: Operands, size: int) -> Carry:
        widths = list(dict.fromkeys(buffer_width(size, share) for share in shares))
        for width, next_width in zip(widths, [*widths[1:], 0], strict=True):
            carry = _work_off(keep_going, body, carry, operands, size, width, next_width)
        return carry

    return _loop(keep_going, body, carry, operands, batched)


def sparse_cond(
    condition: Bool[Array, ""],
    function: Callable[[Carry, Operands], Carry],
    value: Carry,
    operands: Operands,
    *,
    share: int,
    gather: bool = False,
) -> Carry:
    """`function(value, operands)` if `condition` holds, else `value`.

    Under `jax.vmap`, the function runs only on the games whose condition holds, in buffers of the
    batch size divided by `share`. Where this is slower (see `buffer_width`), it runs on all games,
    unless `gather` is set.
    """

    def batched(keep_going: Any, body: Any, carry: Any, operands: Operands, size: int) -> Any:
        if avoids_rounds() and not gather and buffer_width(size, share) == size:
            going, changed = jax.vmap(keep_going)(carry, operands), jax.vmap(body)(carry, operands)
            return jax.tree.map(lambda new, old: _where(going, new, old), changed, carry)
        return _one_round(keep_going, body, carry, operands, size, share, 1, gather=gather)

    _, result = _loop(
        lambda carry, _: carry[0],
        lambda carry, given: (jnp.zeros_like(carry[0]), function(carry[1], given)),
        (condition, value),
        operands,
        batched,
    )
    return result


def one_round_loop(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    *,
    share: int,
    least: int = 1,
) -> Carry:
    """`sparse_while_loop` for a loop that few games enter and that most leave after one round.

    In a batch, each buffer of games goes through one round and is written back. `share` is the
    width of the buffer as a divisor of the batch size. `least` is its minimal width: narrower
    buffers are hardly faster.
    """

    def batched(keep_going: Any, body: Any, carry: Carry, operands: Operands, size: int) -> Carry:
        return _one_round(keep_going, body, carry, operands, size, share, least, gather=False)

    return _loop(keep_going, body, carry, operands, batched)


def _one_round(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    size: int,
    share: int,
    least: int,
    *,
    gather: bool,
) -> Carry:
    width = max(1, size // share) if gather else buffer_width(size, share)
    width = min(size, max(least, width))
    if width == size:
        return _work_off(keep_going, body, carry, operands, size, size, 0)
    return _in_buffers(
        jax.vmap(keep_going), carry, operands, size, width, 0,
        lambda part, given, _: jax.vmap(body)(part, given),
    )  # fmt: skip


def settled(
    more: Callable[[Value], Bool[Array, ""]],
    body: Callable[[Value], Value],
    value: Value,
    *,
    rounds: int,
) -> Value:
    """`jax.lax.while_loop` of at most `rounds` rounds. `body` must not change a final value.

    On a GPU it is unrolled to `rounds` rounds.
    """
    if not avoids_rounds():
        return jax.lax.while_loop(more, body, value)
    for _ in range(rounds):
        value = body(value)
    return value


def _loop(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    batched: Callable[[Any, Any, Carry, Operands, int], Carry],
) -> Carry:
    """`jax.lax.while_loop` for one game, `batched` for a batch of games."""
    # Traced once, not once for every width of buffer.
    keep_going, body = jax.jit(keep_going), jax.jit(body)

    @custom_vmap
    def run(carry: Carry, operands: Operands) -> Carry:
        return jax.lax.while_loop(
            lambda c: keep_going(c, operands), lambda c: body(c, operands), carry
        )

    @run.def_vmap
    def run_batch(size: int, in_batch: PyTree, carry: Carry, operands: Operands) -> PyTree:
        carry = jax.tree.map(partial(_spread, size), carry, in_batch[0])
        # Arrays that all games share, such as a network, are not copied for each game.
        own, shared = eqx.partition(operands, in_batch[1])
        carry = batched(
            lambda part, given: keep_going(part, eqx.combine(given, shared)),
            lambda part, given: body(part, eqx.combine(given, shared)),
            carry, own, size,
        )  # fmt: skip
        return carry, jax.tree.map(lambda _: True, carry)

    return run(carry, operands)


def first_success(
    attempt: Callable[[Int32[Array, ""], Operands], tuple[Bool[Array, ""], Carry]],
    first: Int32[Array, ""],
    operands: Operands,
    *,
    count: int,
) -> tuple[Bool[Array, ""], Carry]:
    """Makes `count` attempts in parallel. Returns whether one succeeded, and the first such result.

    `attempt` is a function of its number, from `first` up, and of the operands. If all attempts
    fail, the last result is returned. In a batch, the attempts of all games become one batch axis.
    Nested `jax.vmap` would make the attempts the innermost axis, which is too short for vector
    instructions and takes ten times as long.
    """

    @custom_vmap
    def run(first: Int32[Array, ""], operands: Operands) -> tuple[Bool[Array, ""], Carry]:
        numbers = first + jnp.arange(count, dtype=jnp.int32)
        return _earliest(jax.vmap(attempt, in_axes=(0, None))(numbers, operands), count)

    @run.def_vmap
    def run_batch(size: int, batched: PyTree, first: Array, operands: Operands) -> PyTree:
        def repeated(x: Any, is_batched: bool) -> Array:
            each = _spread(size, x, is_batched)
            lead = (count, *each.shape)
            return jnp.broadcast_to(each[None], lead).reshape(-1, *lead[2:])

        numbers = repeated(first, batched[0]) + jnp.repeat(jnp.arange(count), size)
        given = jax.tree.map(repeated, operands, batched[1])
        results = jax.vmap(attempt)(numbers.astype(jnp.int32), given)
        results = jax.tree.map(lambda x: x.reshape(count, size, *x.shape[1:]), results)
        found = _earliest(results, count)
        return found, jax.tree.map(lambda _: True, found)

    return run(first, operands)


def _earliest(results: PyTree, count: int) -> PyTree:
    """The first successful attempt along the first axis, else the last attempt."""
    *earlier, (found, value) = (jax.tree.map(lambda x, i=i: x[i], results) for i in range(count))
    for success, one in reversed(earlier):
        value = jax.tree.map(lambda new, old, won=success: _where(won, new, old), one, value)
        found = found | success
    return found, value


def _work_off(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    size: int,
    width: int,
    enough: int,
) -> Carry:
    """Runs rounds in buffers of `width` games, until at most `enough` games are unfinished."""
    active = jax.vmap(keep_going)

    def rounds(part: Carry, given: Operands, valid: Bool[Array, " width"] | None) -> Carry:
        def wants(part: Carry) -> Bool[Array, " width"]:
            going = active(part, given)
            return going if valid is None else going & valid

        def one_round(state: tuple[Bool[Array, " width"], Carry]) -> PyTree:
            going, part = state
            changed = games_innermost(jax.vmap(body)(games_innermost(part), given))
            part = jax.tree.map(lambda new, old: _where(going, new, old), changed, part)
            return wants(part), part

        def more(state: tuple[Bool[Array, " width"], Carry]) -> Bool[Array, ""]:
            going = jnp.sum(state[0], dtype=jnp.int32)
            return going > (enough if valid is None else 0)

        return jax.lax.while_loop(more, one_round, (wants(part), part))[1]

    if width == size:
        return rounds(carry, operands, None)
    return _in_buffers(active, carry, operands, size, width, enough, rounds)


def _in_buffers(
    active: Callable[[Carry, Operands], Bool[Array, " size"]],
    carry: Carry,
    operands: Operands,
    size: int,
    width: int,
    enough: int,
    work: Callable[[Carry, Operands, Bool[Array, " width"]], Carry],
) -> Carry:
    """Gathers active games, works on them and scatters them back, until at most `enough` remain."""

    def one_buffer(state: tuple[Bool[Array, " size"], Carry]) -> PyTree:
        going, carry = state
        # Unsigned indices need no code for negative ones.
        index = materialize(first_indices(going, width).astype(jnp.uint32))
        inside = jnp.minimum(index, jnp.uint32(size - 1))

        def take(values: Array) -> Array:
            return values.at[inside].get(mode="promise_in_bounds")

        part = work(jax.tree.map(take, carry), jax.tree.map(take, operands), index < size)
        carry = jax.tree.map(lambda x, new: x.at[index].set(new, mode="drop"), carry, part)
        return active(carry, operands), carry

    def more_buffers(state: tuple[Bool[Array, " size"], Carry]) -> Bool[Array, ""]:
        return jnp.sum(state[0], dtype=jnp.int32) > enough

    return jax.lax.while_loop(more_buffers, one_buffer, (active(carry, operands), carry))[1]


def first_indices(members: Bool[Array, " size"], width: int) -> Int32[Array, " width"]:
    """The indices of the first `width` members, padded with `size`: `jnp.nonzero` without a scan.

    Flags [0 1 0 1 1], width 4 -> [1 3 4 5]
    """
    # The rank of a member is the number of members in the earlier words, and before it in its word.
    size = members.shape[0]
    words, padded = words_of_flags(members)
    before = _sums_before(size_of(words))
    place = before[:, None] + size_of(words[:, None] & (ONE_BIT - np.uint32(1))[None, :])
    place = jnp.where(padded, place, width).reshape(-1)[:size]
    none = jnp.full(width, size, jnp.int32)
    return none.at[place].set(np.arange(size, dtype=np.int32), mode="drop")


def _sums_before(numbers: Int32[Array, " n"]) -> Int32[Array, " n"]:
    """The exclusive cumulative sum: [2 0 3] -> [0 2 2]."""
    if numbers.size > _MOST_PAIRED:
        return jnp.cumsum(numbers, dtype=jnp.int32) - numbers
    place = np.arange(numbers.size)
    earlier = place[None, :] < place[:, None]
    return jnp.sum(jnp.where(earlier, numbers[None, :], 0), axis=1, dtype=jnp.int32)


def _spread(size: int, value: Any, is_batched: bool) -> Array:
    """The value, broadcast along a batch axis if it has none."""
    return value if is_batched else jnp.broadcast_to(value, (size, *jnp.shape(value)))


def _where(condition: Bool[Array, "*n"], new: Array, old: Array) -> Array:
    return jnp.where(condition.reshape(condition.shape + (1,) * (new.ndim - 1)), new, old)
