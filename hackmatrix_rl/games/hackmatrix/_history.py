"""Snapshots and UNDO (rules, section 7)."""

from dataclasses import fields as dataclass_fields
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._state import (
    ALL_PROGRAMS,
    NUM_PROGRAMS,
    ORIGIN,
    Board,
    Enemies,
    History,
    Player,
    Position,
    Slots,
    Transmissions,
)
from hackmatrix_rl.system.batching import fields, masked, read_row, write_row

_FLAGS = ("show_activated", "scheduled_tasks_disabled")
_NUMBERS = ("turn", "atk_plus_uses_this_stage")
"""The fields of `Position` in a snapshot, besides player, board, slots and programs."""

_FLAG_WORD = fields(programs=NUM_PROGRAMS, **dict.fromkeys(_FLAGS, 1))


def pack(position: Position) -> UInt32[Array, " snapshot_words"]:
    """A snapshot: one row of words.

    It has the board, the enemies, the transmissions, a word of programs and flags, and the numbers
    of the player and of `_NUMBERS`.
    """
    flags = position.programs
    for name in _FLAGS:
        flags = flags | _FLAG_WORD[name].placed(getattr(position, name))
    numbers = [
        *(getattr(position.player, field.name) for field in dataclass_fields(Player)),
        *(getattr(position, name) for name in _NUMBERS),
    ]
    return jnp.concatenate(
        [
            position.board.words,
            _without_origin(position.enemies),
            _without_origin(position.transmissions),
            flags[None],
            jax.lax.bitcast_convert_type(jnp.stack(numbers), jnp.uint32),
        ]
    )


def restore(position: Position, snapshot: UInt32[Array, " snapshot_words"]) -> Position:
    """The position with all fields of the snapshot restored."""
    parts = (position.board, position.enemies, position.transmissions)
    ends = np.cumsum([part.words.size for part in parts] + [1])
    board, enemies, transmissions, flags, numbers = jnp.split(snapshot, ends)
    values = list(jax.lax.bitcast_convert_type(numbers, jnp.int32))
    player, others = values[: -len(_NUMBERS)], values[-len(_NUMBERS) :]
    return replace(
        position,
        player=Player(*player),
        board=Board(board),
        enemies=Enemies(enemies),
        transmissions=Transmissions(transmissions),
        programs=masked(flags[0], ALL_PROGRAMS),
        **dict(zip(_NUMBERS, others, strict=True)),
        **{name: _FLAG_WORD[name].is_set(flags[0]) for name in _FLAGS},
    )


def _without_origin(slots: Slots) -> UInt32[Array, " n"]:
    """The words of the slots without the flags of `ORIGIN`: UNDO loses these (a quirk)."""
    return slots.replace(**dict.fromkeys(ORIGIN, 0)).words


def empty_history(config: GameConfig, position: Position) -> History:
    """An empty history with room for `config.history` snapshots."""
    row = jax.eval_shape(pack, position)
    ring = jnp.zeros((config.history, *row.shape), row.dtype)
    return History(ring=ring, next_slot=jnp.int32(0), count=jnp.int32(0))


def newest(
    history: History, *, back: int | Int32[Array, ""] = 0
) -> UInt32[Array, " snapshot_words"]:
    """The snapshot `back` places before the newest; undefined without one."""
    size = history.ring.shape[0]
    slot = history.next_slot - 1 - back
    return read_row(history.ring, jnp.where(slot < 0, slot + size, slot))


class Past(eqx.Module):
    """A part of a snapshot: what a player remembers of an earlier turn."""

    held: Bool[Array, ""]  #: Whether there is such a snapshot. If not, all other fields are 0.
    player: Player
    programs: UInt32[Array, ""]  #: The bit set of owned programs.


def recall(history: History, *, back: int = 0) -> Past:
    """A part of the snapshot `back` places before the newest. It reads only the words needed."""
    size = history.ring.shape[0]
    held = history.count > back
    slot = jnp.remainder(history.next_slot - 1 - back, size)
    count = 1 + len(dataclass_fields(Player))
    first = history.ring.shape[1] - len(_NUMBERS) - count
    words = jax.lax.dynamic_slice(history.ring, (slot, jnp.int32(first)), (1, count))[0]
    words = jnp.where(held, words, jnp.uint32(0))
    numbers = jax.lax.bitcast_convert_type(words[1:], jnp.int32)
    return Past(held=held, player=Player(*numbers), programs=masked(words[0], ALL_PROGRAMS))


def rewound(position: Position, history: History, *, back: int | Int32[Array, ""] = 0) -> Position:
    """The position after `back + 1` UNDOs; undefined without such a snapshot."""
    return restore(position, newest(history, back=back))


def remember(
    history: History, position: Position, *, push: Bool[Array, ""], pop: Bool[Array, ""]
) -> History:
    """The history after an action that pushes a snapshot, pops the newest, or does neither."""
    size = history.ring.shape[0]
    # One in-place write per game. A write to a row past the last is dropped.
    slot = jnp.where(push, history.next_slot, size)
    ring = write_row(history.ring, slot, pack(position))
    step = push.astype(jnp.int32) - pop.astype(jnp.int32)
    return History(
        ring=ring,
        next_slot=jnp.remainder(history.next_slot + step, size),
        count=jnp.minimum(history.count + step, size),
    )


def forget(history: History, where: Bool[Array, ""]) -> History:
    """The empty history if `where` holds, else the same history."""
    none = jnp.int32(0)
    # The ring stays as it is: snapshots beyond `count` are never read.
    return History(
        ring=history.ring,
        next_slot=jnp.where(where, none, history.next_slot),
        count=jnp.where(where, none, history.count),
    )
