"""Snapshots and UNDO (rules, section 7)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree, UInt8

from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.state import History, Position


def remembered(position: Position) -> PyTree[Array]:
    """The part of a position that a snapshot holds.

    The flags of enemies and transmissions are not in it (a quirk: UNDO loses them).
    """
    enemies, transmissions = position.enemies, position.transmissions
    return (
        position.player,
        position.board,
        (
            enemies.present,
            enemies.type,
            enemies.cell,
            enemies.hp,
            enemies.disabled_turns,
            enemies.stunned,
            enemies.last_known,
        ),
        (
            transmissions.present,
            transmissions.type,
            transmissions.cell,
            transmissions.turns_remaining,
        ),
        position.owned,
        position.turn,
        position.show_activated,
        position.scheduled_tasks_disabled,
        position.atk_plus_uses_this_stage,
    )


def pack(position: Position) -> UInt8[Array, " snapshot_bytes"]:
    """A snapshot of the position as one row of bytes."""
    return jnp.concatenate([_to_bytes(leaf) for leaf in jax.tree.leaves(remembered(position))])


def restore(position: Position, snapshot: UInt8[Array, " snapshot_bytes"]) -> Position:
    """The position with everything that the snapshot holds put back."""
    leaves, structure = jax.tree.flatten(remembered(position))
    old, start = [], 0
    for leaf in leaves:
        length = leaf.size * leaf.dtype.itemsize
        old.append(_from_bytes(snapshot[start : start + length], leaf))
        start += length
    player, board, enemies, transmissions, owned, turn, show, disabled, atk_plus = (
        jax.tree.unflatten(structure, old)
    )
    present, kind, cell, hp, disabled_turns, stunned, last_known = enemies
    no_flags = jnp.zeros_like(present)
    return replace(
        position,
        player=player,
        board=board,
        enemies=replace(
            position.enemies,
            present=present,
            type=kind,
            cell=cell,
            hp=hp,
            disabled_turns=disabled_turns,
            stunned=stunned,
            last_known=last_known,
            from_scheduled_task=no_flags,
            spawned_from_siphon=no_flags,
        ),
        transmissions=replace(
            position.transmissions,
            present=transmissions[0],
            type=transmissions[1],
            cell=transmissions[2],
            turns_remaining=transmissions[3],
            from_scheduled_task=jnp.zeros_like(transmissions[0]),
            spawned_from_siphon=jnp.zeros_like(transmissions[0]),
        ),
        owned=owned,
        turn=turn,
        show_activated=show,
        scheduled_tasks_disabled=disabled,
        atk_plus_uses_this_stage=atk_plus,
    )


def empty_history(config: GameConfig, position: Position) -> History:
    """A history without snapshots, with room for `config.history` of them."""
    row = jax.eval_shape(pack, position)
    ring = jnp.zeros((config.history, *row.shape), row.dtype)
    return History(ring=ring, next_slot=jnp.int32(0), count=jnp.int32(0))


def newest(history: History) -> UInt8[Array, " snapshot_bytes"]:
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


def _to_bytes(leaf: Array) -> UInt8[Array, " n"]:
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint8).reshape(-1)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1)


def _from_bytes(row: UInt8[Array, " n"], like: Array) -> Array:
    if like.dtype == jnp.bool_:
        return row.reshape(like.shape).astype(bool)
    per_item = () if like.dtype.itemsize == 1 else (like.dtype.itemsize,)
    return jax.lax.bitcast_convert_type(row.reshape(like.shape + per_item), like.dtype)
