"""Transmissions appear (rules, section 5, "Spawning transmissions")."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key

from hackmatrix_rl.game import sparse
from hackmatrix_rl.game.board import CellSet, line_of_sight
from hackmatrix_rl.game.random import below
from hackmatrix_rl.game.state import (
    NUM_ENEMY_TYPES,
    Position,
    Transmissions,
    closed_up,
    next_slot,
    put,
)


def spawn_transmissions(
    position: Position,
    *,
    scheduled: Bool[Array, ""],
    from_siphon: Int32[Array, ""],
    unflagged: Int32[Array, ""],
    key: Key[Array, ""],
) -> Position:
    """Spawns transmissions one after another.

    Args:
        position: before the spawns.
        scheduled: spawn one that is flagged from_scheduled_task, first.
        from_siphon: then so many that are flagged spawned_from_siphon.
        unflagged: then so many without a flag.
        key: source of the cells and types.
    """
    before_siphon = scheduled.astype(jnp.int32)
    before_unflagged = before_siphon + from_siphon
    total = before_unflagged + unflagged
    taken = CellSet.of(position.player.cell) | position.enemies.cells | position.board.blocks
    stops = position.enemies.cells | position.board.blocks
    safe = ~(taken | line_of_sight(position.player.cell, stops))

    Carry = tuple[Int32[Array, ""], Transmissions, Int32[Array, ""]]

    def one(carry: Carry, operands: tuple[CellSet, CellSet, Array, Array, Array]) -> Carry:
        index, slots, dropped = carry
        taken, safe, key, before_siphon, before_unflagged = operands
        own = slots.cells
        free = ~taken - own
        out_of_fire = safe - own
        choices = CellSet(
            jnp.where(out_of_fire.any(), out_of_fire.low, free.low),
            jnp.where(out_of_fire.any(), out_of_fire.high, free.high),
        )
        bits = jax.random.bits(jax.random.fold_in(key, index), (2,), jnp.uint32)
        cell = choices.pick(below(bits[0], choices.size()))
        kind = (bits[1] >> 30).astype(jnp.int8)  # four types: two bits

        slot = next_slot(slots.present)
        fits = slot < slots.present.size
        here = (jnp.arange(slots.present.size) == slot) & choices.any()
        slots = put(
            slots,
            here,
            present=True,
            type=kind,
            cell=cell,
            turns_remaining=1,
            from_scheduled_task=index < before_siphon,
            spawned_from_siphon=(index >= before_siphon) & (index < before_unflagged),
        )
        return index + 1, slots, dropped + (choices.any() & ~fits).astype(jnp.int32)

    assert NUM_ENEMY_TYPES == 4  # `kind` above takes two bits
    # Empty slots are squeezed out once, where the arrivals would not fit behind the last.
    room = position.transmissions.present.size - next_slot(position.transmissions.present)
    slots = sparse.apply_if(
        total > room,
        lambda slots, _: closed_up(slots),
        position.transmissions,
        (),
        share=16,
    )
    _, slots, dropped = sparse.while_loop(
        lambda carry, given: carry[0] < given[1],
        lambda carry, given: one(carry, given[0]),
        (jnp.int32(0), slots, position.dropped),
        ((taken, safe, key, before_siphon, before_unflagged), total),
        shares=(16,),
    )
    return replace(position, transmissions=slots, dropped=dropped)
