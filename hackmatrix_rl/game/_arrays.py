"""Positions in and out, in the layout of the recordings (tests/data/conformance/README.md)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hackmatrix_rl.game._board import (
    SIZE,
    col_of,
    row_of,
)
from hackmatrix_rl.game._config import GameConfig
from hackmatrix_rl.game._history import pack
from hackmatrix_rl.game._siphon import union
from hackmatrix_rl.game._state import (
    NOWHERE,
    NUM_PROGRAMS,
    Board,
    Enemies,
    History,
    Player,
    Position,
    State,
    Transmissions,
)
from hackmatrix_rl.game._validation import (
    CELL,
    ENEMY,
    GAME,
    NAMES,
    PLAYER,
    TOP_GAME,
    TRANSMISSION,
    as_array,
    checked,
    read,
)

PADDING = 40
"""Rows of the enemy and transmission arrays; more where a config has room for more."""


def from_arrays(config: GameConfig, arrays: Mapping[str, Any]) -> State:
    """A game, or a batch of games, from a recorded position.

    What is accepted can be played, and `to_arrays` gives it back, but for the order in which
    programs were acquired.

    Args:
        config: the capacities; more enemies or transmissions than fit in them are an error, and
            of a longer history the newest snapshots are kept.
        arrays: `player`, `game`, `owned`, `enemies`, `num_enemies`, `transmissions`,
            `num_transmissions` and `cells`, with or without a leading batch axis; arrays of
            integers, or what NumPy makes such arrays of. Rows of `enemies` and
            `transmissions` behind the last one that is counted are ignored. With the prefix
            `top_`, optionally, the newest snapshot. Older ones that `game` counts are unknown
            and stand as copies of it (of the position, where there is no `top_`). Other names
            are ignored.

    Raises:
        ValueError: if an array is missing or has another shape, or if a position is
            impossible or does not fit; the message names the record, the field and its bounds.
        TypeError: if `arrays` is no mapping.
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be a mapping of names to arrays, not {type(arrays).__name__}")
    batched = as_array(arrays, "player").ndim == 2
    given = read(arrays, "", batched=batched)
    now = top = checked(given, "", config)
    if any(f"top_{name}" in arrays for name in NAMES):
        records = len(given["player"])
        top = checked(read(arrays, "top_", batched=batched, records=records), "top_", config)
    states = _build(config, _to_device(now), _to_device(top))
    return states if batched else jax.tree.map(lambda x: x[0], states)


def to_arrays(state: State) -> dict[str, np.ndarray]:
    """The layout that `from_arrays` reads, from one game or a batch of games.

    The snapshots themselves are left out; `game` counts those that are held. The order in
    which programs were acquired is not kept: owned ones are numbered in the order of actions.
    """
    if state.history.count.ndim == 0:
        lead = jax.tree.map(lambda x: x[None], state)
        return {name: array[0] for name, array in to_arrays(lead).items()}

    found = {name: np.array(array) for name, array in _columns(state).items()}
    here = {name: found.pop(f"{name} present") for name in ("enemies", "transmissions")}
    return {
        "player": found["player"],
        "game": found["game"],
        "owned": (np.cumsum(found["owned"], axis=1) * found["owned"]).astype(np.int8),
        "enemies": _listed(found["enemies"], here["enemies"]).astype(np.int8),
        "num_enemies": here["enemies"].sum(1).astype(np.int32),
        "transmissions": _listed(found["transmissions"], here["transmissions"]),
        "num_transmissions": here["transmissions"].sum(1).astype(np.int32),
        "cells": found["cells"].astype(np.int8),
    }


@jax.jit
@jax.vmap
def _columns(state: State) -> dict[str, Array]:
    """The numbers of a game, unpacked: the entries of `PLAYER`, `GAME` and so on side by side."""
    position = state.position
    player, board = position.player, position.board
    enemies, transmissions = position.enemies, position.transmissions
    known = enemies.last_known != NOWHERE
    columns = {
        "player": [
            row_of(player.cell), col_of(player.cell), player.hp, player.credits,
            player.energy, player.data_siphons, player.score, player.attack_damage,
        ],
        "game": [
            position.stage, position.turn, row_of(position.exit_cell), col_of(position.exit_cell),
            position.show_activated, position.scheduled_tasks_disabled, position.step_active,
            position.atk_plus_uses_this_stage, position.scheduled_task_interval,
            position.next_scheduled_task_turn, position.pending_siphon_transmissions,
            state.history.count,
        ],
        "enemies": [
            enemies.type, row_of(enemies.cell), col_of(enemies.cell), enemies.hp,
            enemies.disabled_turns, enemies.stunned,
            jnp.where(known, row_of(enemies.last_known), -1),
            jnp.where(known, col_of(enemies.last_known), -1),
            enemies.from_scheduled_task, enemies.spawned_from_siphon,
        ],
        "transmissions": [
            row_of(transmissions.cell), col_of(transmissions.cell), transmissions.turns_remaining,
            transmissions.type, transmissions.from_scheduled_task,
            transmissions.spawned_from_siphon,
        ],
        "cells": [
            board.content, board.value, board.spawn_count, board.credits, board.energy,
            board.siphoned, board.siphon_center,
        ],
    }  # fmt: skip
    return {
        "enemies present": enemies.present,
        "transmissions present": transmissions.present,
        "owned": position.owned.astype(jnp.int32),
        **{
            name: jnp.stack([value.astype(jnp.int32) for value in values], axis=-1)
            for name, values in columns.items()
        },
    }


def _listed(table: np.ndarray, present: np.ndarray) -> np.ndarray:
    """The entries that are present, first come first, padded with zeros."""
    table = table * present[..., None]
    order = np.argsort(~present, axis=1, kind="stable")
    table = np.take_along_axis(table, order[..., None], axis=1)
    missing = max(PADDING - table.shape[1], 0)
    return np.pad(table, ((0, 0), (0, missing), (0, 0)))


def _to_device(arrays: dict[str, np.ndarray]) -> dict[str, Array]:
    return {name: jnp.asarray(array) for name, array in arrays.items()}


@partial(jax.jit, static_argnums=0)
def _build(config: GameConfig, now: dict[str, Array], top: dict[str, Array]) -> State:
    def one(now: dict[str, Array], top: dict[str, Array]) -> State:
        game = dict(zip(GAME, now["game"], strict=True))
        names = GAME if top["game"].size == len(GAME) else TOP_GAME
        position = _position(now, game)
        remembered = _position(top, game | dict(zip(names, top["game"], strict=True)))
        count = jnp.minimum(now["game"][GAME.index("snapshots")], config.history)
        row = pack(remembered)
        ring = jnp.broadcast_to(row, (config.history, row.size))
        return State(position, History(ring, jnp.remainder(count, config.history), count))

    return jax.vmap(one)(now, top)


def _position(arrays: dict[str, Array], game: dict[str, Array]) -> Position:
    player = dict(zip(PLAYER, arrays["player"], strict=True))
    cell = player.pop("row") * SIZE + player.pop("col")
    enemy = dict(zip(ENEMY, arrays["enemies"].T, strict=True))
    transmission = dict(zip(TRANSMISSION, arrays["transmissions"].T, strict=True))
    cells = dict(zip(CELL, arrays["cells"].T, strict=True))
    known = (enemy["last_known row"] >= 0) & (enemy["last_known col"] >= 0)
    cell_known = enemy["last_known row"] * SIZE + enemy["last_known col"]
    return Position(
        player=Player(cell=cell, **player),
        board=Board.of(**cells),
        enemies=Enemies.of(
            present=jnp.arange(enemy["type"].size) < arrays["num_enemies"],
            type=enemy["type"],
            cell=enemy["row"] * SIZE + enemy["col"],
            hp=enemy["hp"],
            disabled_turns=enemy["disabled_turns"],
            stunned=enemy["stunned"],
            last_known=jnp.where(known, cell_known, NOWHERE),
            from_scheduled_task=enemy["from_scheduled_task"],
            spawned_from_siphon=enemy["spawned_from_siphon"],
        ),
        transmissions=Transmissions.of(
            present=jnp.arange(transmission["type"].size) < arrays["num_transmissions"],
            type=transmission["type"],
            cell=transmission["row"] * SIZE + transmission["col"],
            turns_remaining=transmission["turns_remaining"],
            from_scheduled_task=transmission["from_scheduled_task"],
            spawned_from_siphon=transmission["spawned_from_siphon"],
        ),
        programs=union(
            jnp.uint32(1) << jnp.arange(NUM_PROGRAMS, dtype=jnp.uint32), arrays["owned"] > 0
        ),
        stage=game["stage"],
        turn=game["turn"],
        exit_cell=game["exit row"] * SIZE + game["exit col"],
        show_activated=game["show_activated"] != 0,
        scheduled_tasks_disabled=game["scheduled_tasks_disabled"] != 0,
        step_active=game["step_active"] != 0,
        atk_plus_uses_this_stage=game["atk_plus_uses_this_stage"],
        scheduled_task_interval=game["scheduled_task_interval"],
        next_scheduled_task_turn=game["next_scheduled_task_turn"],
        pending_siphon_transmissions=game["pending_siphon_transmissions"],
        dropped=jnp.int32(0),
    )
