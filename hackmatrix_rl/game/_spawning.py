"""Transmissions appear (rules, section 5, "Spawning transmissions")."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from hackmatrix_rl.batching import Chance
from hackmatrix_rl.game._board import NUM_CELLS, CellSet, line_of_sight
from hackmatrix_rl.game._slots import next_slot, put, with_room
from hackmatrix_rl.game._state import NUM_ENEMY_TYPES, Transmissions


def spawn_transmissions(
    slots: Transmissions,
    player_cell: Int32[Array, ""],
    stops: CellSet,
    *,
    scheduled: Bool[Array, ""],
    from_siphon: Int32[Array, ""],
    unflagged: Int32[Array, ""],
    chance: Chance,
) -> tuple[Transmissions, Int32[Array, ""]]:
    """Spawns transmissions one after another.

    Args:
        slots: the transmissions before.
        player_cell: the player's cell.
        stops: the cells with an enemy or a block.
        scheduled: whether to spawn one with the flag from_scheduled_task, first.
        from_siphon: how many to spawn then with the flag spawned_from_siphon.
        unflagged: how many to spawn then without a flag.
        chance: source of random cells and types.

    Returns:
        The transmissions after, and how many found no room.
    """
    before_siphon = scheduled.astype(jnp.int32)
    before_unflagged = before_siphon + from_siphon
    # A cell takes only one new transmission, so there are never more than cells.
    total = jnp.minimum(before_unflagged + unflagged, NUM_CELLS)
    taken = stops | CellSet.of(player_cell) | slots.cells
    seen = line_of_sight(player_cell, stops)

    Carry = tuple[Int32[Array, ""], CellSet, Int32[Array, ""], Transmissions]

    def one(carry: Carry) -> Carry:
        index, taken, slot, slots = carry
        free = ~taken
        out_of_fire = free - seen
        hidden = out_of_fire.any()
        choices = CellSet(
            jnp.where(hidden, out_of_fire.low, free.low),
            jnp.where(hidden, out_of_fire.high, free.high),
        )
        cell = choices.choose(chance.bits(2 * index))
        word = Transmissions.word(
            present=1,
            type=(chance.bits(2 * index + 1) >> 30).astype(jnp.int32),
            cell=cell,
            turns_remaining=1,
            from_scheduled_task=index < before_siphon,
            spawned_from_siphon=(index >= before_siphon) & (index < before_unflagged),
        )
        found = choices.any()
        slots = put(slots, jnp.where(found, slot, slots.size), word)
        taken = taken | CellSet.of(cell).where(found)
        return index + 1, taken, slot + found.astype(jnp.int32), slots

    assert NUM_ENEMY_TYPES == 4  # two random bits are a type
    slots = with_room(slots, total)
    start = (jnp.int32(0), taken, next_slot(slots), slots)
    _, _, slot, slots = jax.lax.while_loop(lambda carry: carry[0] < total, one, start)
    return slots, jnp.maximum(slot - slots.size, 0)
