"""Snapshots and UNDO (rules, section 7)."""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.game._config import GameConfig
from hackmatrix_rl.game._state import (
    FLAGS,
    NUM_PROGRAMS,
    Board,
    Enemies,
    History,
    Player,
    Position,
    Slots,
    Transmissions,
)


def pack(position: Position) -> UInt32[Array, " snapshot_words"]:
    """A snapshot of the position as one row of words."""
    flags = (
        position.programs
        | (position.show_activated.astype(jnp.uint32) << NUM_PROGRAMS)
        | (position.scheduled_tasks_disabled.astype(jnp.uint32) << (NUM_PROGRAMS + 1))
    )
    numbers = [*_numbers(position.player), position.turn, position.atk_plus_uses_this_stage]
    return jnp.concatenate(
        [
            position.board.words,
            _without_flags(position.enemies),
            _without_flags(position.transmissions),
            flags[None],
            jax.lax.bitcast_convert_type(jnp.stack(numbers), jnp.uint32),
        ]
    )


def restore(position: Position, snapshot: UInt32[Array, " snapshot_words"]) -> Position:
    """The position with everything that the snapshot holds put back."""
    parts = (position.board, position.enemies, position.transmissions)
    ends = np.cumsum([part.words.size for part in parts] + [1])
    board, enemies, transmissions, flags, numbers = jnp.split(snapshot, ends)
    *player, turn, atk_plus = jax.lax.bitcast_convert_type(numbers, jnp.int32)
    return replace(
        position,
        player=Player(*player),
        board=Board(board),
        enemies=Enemies(enemies),
        transmissions=Transmissions(transmissions),
        programs=flags[0] & jnp.uint32((1 << NUM_PROGRAMS) - 1),
        turn=turn,
        show_activated=((flags[0] >> NUM_PROGRAMS) & 1) != 0,
        scheduled_tasks_disabled=((flags[0] >> (NUM_PROGRAMS + 1)) & 1) != 0,
        atk_plus_uses_this_stage=atk_plus,
    )


def _numbers(player: Player) -> list[Int32[Array, ""]]:
    return [getattr(player, field.name) for field in fields(player)]


def _without_flags(slots: Slots) -> UInt32[Array, " n"]:
    """UNDO loses them (a quirk)."""
    return slots.replace(**dict.fromkeys(FLAGS, 0)).words


def empty_history(config: GameConfig, position: Position) -> History:
    """A history without snapshots, with room for `config.history` of them."""
    row = jax.eval_shape(pack, position)
    ring = jnp.zeros((config.history, *row.shape), row.dtype)
    return History(ring=ring, next_slot=jnp.int32(0), count=jnp.int32(0))


def newest(history: History) -> UInt32[Array, " snapshot_words"]:
    """The newest snapshot; meaningless where there is none."""
    size = history.ring.shape[0]
    slot = jnp.where(history.next_slot == 0, size - 1, history.next_slot - 1)
    return jax.lax.dynamic_index_in_dim(history.ring, slot, keepdims=False)


def remember(
    history: History,
    position: Position,
    *,
    push: Bool[Array, ""],
    pop: Bool[Array, ""],
) -> History:
    """The history after an action: a snapshot pushed, or the newest one taken off, or neither."""
    size = history.ring.shape[0]
    # One write a game, in place: a row beyond the ring is a write that is dropped.
    slot = jnp.where(push, history.next_slot, size)
    ring = history.ring.at[slot].set(pack(position), mode="drop")
    step = push.astype(jnp.int32) - pop.astype(jnp.int32)
    return History(
        ring=ring,
        next_slot=jnp.remainder(history.next_slot + step, size),
        count=jnp.minimum(history.count + step, size),
    )
