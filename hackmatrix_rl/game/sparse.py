"""Loops that cost a batch only what its games need.

Under `jax.vmap`, `lax.cond` computes both branches for every game and `lax.while_loop` runs
every game until the last one is done. Most of this game is rare (a stage ends once in 15
steps, a program is seldom played), so the loops here gather the games that are still at it
into a smaller buffer, work there, and scatter them back.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, PyTree

Carry = TypeVar("Carry", bound=PyTree)
Operands = TypeVar("Operands", bound=PyTree)


def while_loop(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    *,
    shares: tuple[int, ...],
) -> Carry:
    """`jax.lax.while_loop` whose batched form leaves finished games alone.

    Args:
        keep_going: whether the loop goes on, for one game.
        body: one round, for one game.
        carry: what the rounds change.
        operands: what they only read.
        shares: widths of the buffers as divisors of the batch: with `(1, 8)`, all games go
            round together until at most an eighth of them is left, which goes on alone.
            The last share works off any number of games, one bufferful after another.

    Returns:
        The carry after the last round.
    """

    @custom_vmap
    def run(carry: Carry, operands: Operands) -> Carry:
        return jax.lax.while_loop(
            lambda c: keep_going(c, operands), lambda c: body(c, operands), carry
        )

    @run.def_vmap
    def run_batch(size: int, batched: PyTree, carry: Carry, operands: Operands) -> PyTree:
        def spread(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x, (size, *jnp.shape(x)))

        carry = jax.tree.map(spread, carry, batched[0])
        operands = jax.tree.map(spread, operands, batched[1])
        widths = [max(1, size // share) for share in shares]
        for width, next_width in zip(widths, [*widths[1:], 0], strict=True):
            carry = _work_off(keep_going, body, carry, operands, size, width, next_width)
        return carry, jax.tree.map(lambda _: True, carry)

    return run(carry, operands)


def apply_if(
    condition: Bool[Array, ""],
    function: Callable[[Carry, Operands], Carry],
    value: Carry,
    operands: Operands,
    *,
    share: int,
) -> Carry:
    """`function(value, operands)` if `condition` holds, else `value`.

    Under `jax.vmap` the function runs only on the games whose condition holds, in buffers
    of one `share`-th of the batch.
    """
    _, result = while_loop(
        lambda carry, _: carry[0],
        lambda carry, given: (jnp.zeros_like(carry[0]), function(carry[1], given)),
        (condition, value),
        operands,
        shares=(share,),
    )
    return result


def _work_off(
    keep_going: Callable[[Carry, Operands], Bool[Array, ""]],
    body: Callable[[Carry, Operands], Carry],
    carry: Carry,
    operands: Operands,
    size: int,
    width: int,
    enough: int,
) -> Carry:
    """Rounds in buffers of `width` games, until at most `enough` games want another."""
    active = jax.vmap(keep_going)

    def rounds(part: Carry, given: Operands, valid: Bool[Array, " width"] | None) -> Carry:
        def wants(part: Carry) -> Bool[Array, " width"]:
            going = active(part, given)
            return going if valid is None else going & valid

        def one_round(state: tuple[Bool[Array, " width"], Carry]) -> PyTree:
            going, part = state
            changed = jax.vmap(body)(part, given)
            part = jax.tree.map(lambda new, old: _where(going, new, old), changed, part)
            return wants(part), part

        def more(state: tuple[Bool[Array, " width"], Carry]) -> Bool[Array, ""]:
            going = jnp.sum(state[0], dtype=jnp.int32)
            return going > (enough if valid is None else 0)

        return jax.lax.while_loop(more, one_round, (wants(part), part))[1]

    if width == size:
        return rounds(carry, operands, None)

    def one_buffer(state: tuple[Bool[Array, " size"], Carry]) -> PyTree:
        going, carry = state
        (index,) = jnp.nonzero(going, size=width, fill_value=size)

        def take(values: Array) -> Array:
            return values.at[index].get(mode="clip")

        part = rounds(jax.tree.map(take, carry), jax.tree.map(take, operands), index < size)
        carry = jax.tree.map(lambda x, new: x.at[index].set(new, mode="drop"), carry, part)
        return active(carry, operands), carry

    def more_buffers(state: tuple[Bool[Array, " size"], Carry]) -> Bool[Array, ""]:
        return jnp.sum(state[0], dtype=jnp.int32) > enough

    return jax.lax.while_loop(more_buffers, one_buffer, (active(carry, operands), carry))[1]


def _where(condition: Bool[Array, " n"], new: Array, old: Array) -> Array:
    return jnp.where(condition.reshape(condition.shape + (1,) * (new.ndim - 1)), new, old)
