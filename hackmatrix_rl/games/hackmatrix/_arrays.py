"""Positions as NumPy arrays, in the layout of the recordings (tests/data/conformance/README.md)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from hackmatrix_rl.games.hackmatrix._board import SIZE, col_of, row_of
from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._history import pack
from hackmatrix_rl.games.hackmatrix._state import (
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
from hackmatrix_rl.games.hackmatrix._validation import (
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
from hackmatrix_rl.system.batching import union

PADDING = 40
"""Least number of rows of the arrays of enemies and transmissions."""


def from_arrays(config: GameConfig, arrays: Mapping[str, Any]) -> State:
    """A game, or a batch of games, from a recorded position.

    Every accepted position can be played. `to_arrays` returns the same arrays, except for the
    order in which programs were acquired.

    Args:
        config: the capacities. More enemies or transmissions are an error. Only the newest
            `config.history` snapshots are kept.
        arrays: `player`, `game`, `owned`, `enemies`, `num_enemies`, `transmissions`,
            `num_transmissions` and `cells`, with or without a leading batch axis. Each is an
            integer array, or a value that NumPy converts to one. Rows of `enemies` and
            `transmissions` beyond their number are ignored. The same names with the prefix `top_`
            optionally give the newest snapshot. `game` gives only the number of older snapshots:
            they become copies of the newest one, or of the position without `top_`. Other names
            are ignored.

    Raises:
        ValueError: an array is missing or has the wrong shape, or a position is invalid or
            exceeds the capacities. The message names the record, the field and its bounds.
        TypeError: `arrays` is not a mapping.
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be a mapping of names to arrays, not {type(arrays).__name__}")
    batched = as_array(arrays, "player").ndim == 2
    given = read(arrays, "", batched=batched)
    now = top = checked(given, "", config)
    if any(f"top_{name}" in arrays for name in NAMES):
        records = len(given["player"])
        top = checked(read(arrays, "top_", batched=batched, records=records), "top_", config)
    states: State = _build(config, now, top)
    return states if batched else jax.tree.map(lambda x: x[0], states)


def to_arrays(state: State) -> dict[str, np.ndarray]:
    """The inverse of `from_arrays`, for one game or a batch of games.

    Snapshots are left out; `game` has their number. A state does not store the order in which
    programs were acquired, so `owned` numbers them in the order of actions.
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
    position = state.position
    enemies, transmissions = position.enemies, position.transmissions
    return {
        "enemies present": enemies.present,
        "transmissions present": transmissions.present,
        "owned": position.owned.astype(jnp.int32),
        "player": _table(PLAYER, position.player),
        "game": _table(GAME, position, snapshots=state.history.count),
        "enemies": _table(ENEMY, enemies),
        "transmissions": _table(TRANSMISSION, transmissions),
        "cells": _table(CELL, position.board),
    }


def _table(
    columns: tuple[str, ...], record: Any, **others: Int32[Array, ""]
) -> Int32[Array, "*n columns"]:
    """The fields of a record as columns. A cell takes two: row and column."""

    def column(name: str) -> Array:
        field, part = _field_of(name)
        if part is None:
            return others[name] if name in others else getattr(record, name)
        cell = getattr(record, field)
        place = row_of(cell) if part == "row" else col_of(cell)
        return jnp.where(cell == NOWHERE, -1, place)

    return jnp.stack([column(name).astype(jnp.int32) for name in columns], axis=-1)


def _fields(columns: tuple[str, ...], table: Int32[Array, "*n columns"]) -> dict[str, Array]:
    """The inverse of `_table`: the fields by name."""
    numbers = dict(zip(columns, jnp.moveaxis(table, -1, 0), strict=True))
    values = {}
    for name in columns:
        field, part = _field_of(name)
        if part is None:
            values[field] = numbers[name]
        elif part == "row":
            row, col = numbers[name], numbers[name.removesuffix("row") + "col"]
            values[field] = jnp.where((row < 0) | (col < 0), NOWHERE, row * SIZE + col)
    return values


def _field_of(column: str) -> tuple[str, str | None]:
    """Parses a column: "exit row" -> ("exit_cell", "row"), "hp" -> ("hp", None)."""
    *name, part = column.split(" ")
    if part not in ("row", "col"):
        return column, None
    return {"": "cell", "exit": "exit_cell"}.get(" ".join(name), " ".join(name)), part


def _listed(table: np.ndarray, present: np.ndarray) -> np.ndarray:
    """The present rows in order, padded with zeros."""
    table = table * present[..., None]
    order = np.argsort(~present, axis=1, kind="stable")
    table = np.take_along_axis(table, order[..., None], axis=1)
    missing = max(PADDING - table.shape[1], 0)
    return np.pad(table, ((0, 0), (0, missing), (0, 0)))


@partial(jax.jit, static_argnums=0)
def _build(config: GameConfig, now: dict[str, Array], top: dict[str, Array]) -> State:
    def one(now: dict[str, Array], top: dict[str, Array]) -> State:
        game = _fields(GAME, now["game"])
        position = _position(now, game)
        names = GAME if top["game"].size == len(GAME) else TOP_GAME
        remembered = _position(top, game | _fields(names, top["game"]))
        count = jnp.minimum(game["snapshots"], config.history)
        row = pack(remembered)
        ring = jnp.broadcast_to(row, (config.history, row.size))
        return State(position, History(ring, jnp.remainder(count, config.history), count))

    return jax.vmap(one)(now, top)


def _position(arrays: dict[str, Array], game: dict[str, Array]) -> Position:
    def present(name: str) -> Bool[Array, " n"]:
        return jnp.arange(arrays[name].shape[0]) < arrays[f"num_{name}"]

    flags = ("show_activated", "scheduled_tasks_disabled", "step_active")
    bits = jnp.uint32(1) << jnp.arange(NUM_PROGRAMS, dtype=jnp.uint32)
    return Position(
        player=Player(**_fields(PLAYER, arrays["player"])),
        board=Board.from_fields(**_fields(CELL, arrays["cells"])),
        enemies=Enemies.from_fields(
            present=present("enemies"), **_fields(ENEMY, arrays["enemies"])
        ),
        transmissions=Transmissions.from_fields(
            present=present("transmissions"), **_fields(TRANSMISSION, arrays["transmissions"])
        ),
        programs=union(jnp.where(arrays["owned"] > 0, bits, jnp.uint32(0))),
        dropped=jnp.int32(0),
        **{
            name: value != 0 if name in flags else value
            for name, value in game.items()
            if name != "snapshots"
        },
    )
