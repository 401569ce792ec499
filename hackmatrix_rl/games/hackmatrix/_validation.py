"""Checks of recorded positions (see `_arrays.py`) and of the sizes of states."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hackmatrix_rl.games.hackmatrix._board import CORNERS, NUM_CELLS, SIZE
from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._state import (
    ENEMY_HP,
    GIVEN_POINTS,
    LAST_STAGE,
    LONGEST_WAIT,
    MAX_HP,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Board,
    Content,
    Enemies,
    EnemyType,
    State,
)

PLAYER = (
    "row", "col", "hp", "credits", "energy", "data_siphons", "score", "attack_damage",
)  # fmt: skip
GAME = (
    "stage", "turn", "exit row", "exit col", "show_activated", "scheduled_tasks_disabled",
    "step_active", "atk_plus_uses_this_stage", "scheduled_task_interval",
    "next_scheduled_task_turn", "pending_siphon_transmissions", "snapshots",
)  # fmt: skip
TOP_GAME = ("turn", "show_activated", "scheduled_tasks_disabled", "atk_plus_uses_this_stage")
ENEMY = (
    "type", "row", "col", "hp", "disabled_turns", "stunned", "last_known row", "last_known col",
    "from_scheduled_task", "spawned_from_siphon",
)  # fmt: skip
TRANSMISSION = (
    "row", "col", "turns_remaining", "type", "from_scheduled_task", "spawned_from_siphon",
)  # fmt: skip
CELL = ("content", "value", "spawn_count", "credits", "energy", "siphoned", "siphon_center")

COLUMNS = {
    "player": PLAYER, "game": GAME, "enemies": ENEMY, "transmissions": TRANSMISSION, "cells": CELL,
}  # fmt: skip
"""The columns of each array that has columns."""

NAMES = (
    "player", "game", "owned", "enemies", "num_enemies", "transmissions", "num_transmissions",
    "cells",
)  # fmt: skip
"""The arrays of a position."""

LARGEST = 1_000_000_000
"""The largest accepted value of a number that the rules do not bound (credits, a turn).

Numbers are int32, with the maximum 2,147,483,647. The game adds at most two of them (credits and
energy; a turn and an interval). A move increases a number by at most 75 (five blocks with 15 points
or spawns each). So no number overflows within a million moves.
"""

_ENDS = _ON_BOARD = (0, SIZE - 1)
_FLAG = (0, 1)
_RANGES = {
    "row": _ON_BOARD, "col": _ON_BOARD, "exit row": _ON_BOARD, "exit col": _ON_BOARD,
    "last_known row": (-1, SIZE - 1), "last_known col": (-1, SIZE - 1),
    "hp": (0, MAX_HP), "stage": (1, LAST_STAGE), "type": (0, NUM_ENEMY_TYPES - 1),
    "turns_remaining": (0, LONGEST_WAIT),
    "disabled_turns": (0, Enemies.FIELDS["disabled_turns"].largest), "stunned": _FLAG,
    "from_scheduled_task": _FLAG, "spawned_from_siphon": _FLAG, "show_activated": _FLAG,
    "scheduled_tasks_disabled": _FLAG, "step_active": _FLAG, "siphoned": _FLAG,
    "siphon_center": _FLAG, "content": (0, len(Content) - 1),
    "value": (0, Board.FIELDS["value"].largest),
    "spawn_count": (0, Board.FIELDS["spawn_count"].largest),
    "cell credits": (0, 3), "cell energy": (0, 3),
}  # fmt: skip


def check_sizes(config: GameConfig, state: State) -> None:
    """Raises a ValueError if a game has other sizes than a config."""
    sizes = {
        "max_enemies": state.position.enemies.size,
        "max_transmissions": state.position.transmissions.size,
        "history": state.history.ring.shape[-2],
    }
    for name, size in sizes.items():
        if size != getattr(config, name):
            raise ValueError(
                f"state is of a game with {name}={size}, but config has "
                f"{name}={getattr(config, name)}; use the config that the game was made with"
            )


def read(
    arrays: Mapping[str, Any], prefix: str, *, batched: bool, records: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays of a position with a batch axis, checked for their shapes and dtypes."""
    shapes = {
        "player": (len(PLAYER),), "game": (len(TOP_GAME if prefix else GAME),),
        "owned": (NUM_PROGRAMS,), "enemies": ("rows", len(ENEMY)), "num_enemies": (),
        "transmissions": ("rows", len(TRANSMISSION)), "num_transmissions": (),
        "cells": (NUM_CELLS, len(CELL)),
    }  # fmt: skip
    out = {}
    for name in NAMES:
        array = as_array(arrays, prefix + name)
        want = ("records", *shapes[name]) if batched else shapes[name]
        sizes = zip(want, array.shape, strict=False)
        fits = all(isinstance(size, str) or size == have for size, have in sizes)
        if array.ndim != len(want) or not fits:
            shape = f"({', '.join(map(str, want))})"
            raise ValueError(f"{prefix}{name} has shape {array.shape}, not {shape}")
        if array.dtype.kind not in "iub":
            raise ValueError(f"{prefix}{name} has dtype {array.dtype}, not an integer type")
        out[name] = array if batched else array[None]
        records = len(out[name]) if records is None else records
        if len(out[name]) != records:
            raise ValueError(f"{prefix}{name} has {len(array)} records, player has {records}")
    return out


def as_array(arrays: Mapping[str, Any], name: str) -> np.ndarray:
    """The array with this name. Raises a ValueError if it is missing."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    try:
        return np.asarray(arrays[name])
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} is not an array of numbers: {' '.join(str(error).split())}"
        ) from error


def checked(
    arrays: Mapping[str, np.ndarray], prefix: str, config: GameConfig
) -> dict[str, np.ndarray]:
    """A position as int32, checked to be valid and within the capacities."""
    capacities = {"enemies": config.max_enemies, "transmissions": config.max_transmissions}
    used = {
        name: _used_rows(prefix + name, arrays[name], arrays[f"num_{name}"], capacity)
        for name, capacity in capacities.items()
    }
    for name, columns in (COLUMNS | ({"game": TOP_GAME} if prefix else {})).items():
        for number, column in enumerate(columns):
            values = arrays[name][..., number]
            key = f"cell {column}" if name == "cells" else column
            low, high = _RANGES.get(key, _RANGES.get(column, (0, LARGEST)))
            bad = ((values < low) | (values > high)) & used.get(name, True)
            _refuse(bad, prefix + name, column, values, f"not within {low}..{high}")
    owned = arrays["owned"]
    bad = (owned < 0) | (owned > NUM_PROGRAMS)
    _refuse(bad, f"{prefix}owned", "place", owned, f"not within 0..{NUM_PROGRAMS}")
    _check_enemies(f"{prefix}enemies", arrays["enemies"], used["enemies"])
    _check_cells(f"{prefix}cells", arrays["cells"])
    if not prefix:
        for name in ("exit row", "exit col"):
            values = arrays["game"][:, GAME.index(name)]
            _refuse(~np.isin(values, _ENDS), "game", name, values, "not 0 or 5: exits are corners")

    out = {}
    for name, array in arrays.items():
        if name in used:
            array = np.where(used[name][..., None], array, 0)[:, : capacities[name]]
            missing = capacities[name] - array.shape[1]
            array = np.pad(array, ((0, 0), (0, missing), (0, 0)))
        out[name] = array.astype(np.int32)
    return out


def _used_rows(name: str, table: np.ndarray, number: np.ndarray, capacity: int) -> np.ndarray:
    """Which rows of a table are in use. The others are undefined."""
    count, rows = f"num_{name}", table.shape[1]
    if name.startswith("top_"):
        count = f"top_num_{name.removeprefix('top_')}"
    _refuse((number < 0) | (number > rows), count, "", number, f"not within 0..{rows}")
    limit = f"max_{name.removeprefix('top_')}={capacity}"
    _refuse(number > capacity, count, "", number, f"more than {limit} of the config")
    return np.arange(rows) < number[:, None]


def _check_enemies(name: str, enemies: np.ndarray, used: np.ndarray) -> None:
    columns = dict(zip(ENEMY, np.moveaxis(enemies, -1, 0), strict=True))
    for kind in EnemyType:
        hp, full = columns["hp"], ENEMY_HP[kind]
        bad = used & (columns["type"] == kind) & ((hp < 1) | (hp > full))
        _refuse(bad, name, "hp", hp, f"not within 1..{full}, as for a {kind.name.lower()}")
    row, col = columns["last_known row"], columns["last_known col"]
    bad = used & ((row < 0) != (col < 0))
    _refuse(bad, name, "last_known col", col, "and its row is not: both or neither must be -1")


def _check_cells(name: str, cells: np.ndarray) -> None:
    columns = dict(zip(CELL, np.moveaxis(cells, -1, 0), strict=True))
    content, value = columns["content"], columns["value"]
    data = np.isin(content, (Content.DATA, Content.HIDDEN_DATA))
    program = np.isin(content, (Content.PROGRAM, Content.HIDDEN_PROGRAM))
    _refuse(data & (value > GIVEN_POINTS), name, "points", value, f"not within 0..{GIVEN_POINTS}")
    last = NUM_PROGRAMS - 1
    _refuse(program & (value > last), name, "program", value, f"not within 0..{last}")
    for column in ("value", "spawn_count"):
        bad = ~(data | program) & (columns[column] != 0)
        _refuse(bad, name, column, columns[column], "not 0: the cell has no block")
    bad = (columns["credits"] > 0) & (columns["energy"] > 0)
    _refuse(bad, name, "energy", columns["energy"], "not 0: the cell has credits")
    bad = (content == Content.EXIT) & ~np.isin(np.arange(NUM_CELLS), CORNERS)
    corners = ", ".join(map(str, CORNERS))
    _refuse(bad, name, "content", content, f"not allowed there: exits are in cells {corners}")


def _refuse(bad: np.ndarray, name: str, column: str, values: np.ndarray, why: str) -> None:
    """Raises a ValueError for the first bad value."""
    for record, *row in np.argwhere(bad)[:1].tolist():
        where = f"{name}[{row[0]}]" if row else name
        field = f"{column} of {where}" if column else where
        raise ValueError(f"record {record}: {field} is {int(values[(record, *row)])}, {why}")
