"""What a recorded position must be like to be one (see `arrays.py`)."""

from collections.abc import Mapping

import numpy as np

from hackmatrix_rl.game.board import NUM_CELLS, SIZE
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.state import (
    ENEMY_HP,
    LAST_STAGE,
    LONGEST_WAIT,
    MAX_HP,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Board,
    Content,
    Enemies,
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

_BOUNDLESS = (0, np.iinfo(np.int32).max)
_ON_BOARD = (0, SIZE - 1)
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
    "value": (0, Board.FIELDS["value"].largest), "spawn_count": (0, 9),
    "cell credits": (0, 3), "cell energy": (0, 3),
}  # fmt: skip


def checked(
    arrays: Mapping[str, np.ndarray], prefix: str, config: GameConfig, *, batched: bool
) -> dict[str, np.ndarray]:
    """The arrays of one position as int32, with a batch axis, found possible and small enough.

    Args:
        arrays: as given to `from_arrays`.
        prefix: of the names of this position's arrays.
        config: the capacities.
        batched: whether the arrays have a batch axis.

    Raises:
        ValueError: naming the record and field.
    """
    game_columns = TOP_GAME if prefix else GAME
    shapes = {
        "player": (len(PLAYER),), "game": (len(game_columns),), "owned": (NUM_PROGRAMS,),
        "enemies": (None, len(ENEMY)), "num_enemies": (),
        "transmissions": (None, len(TRANSMISSION)), "num_transmissions": (),
        "cells": (NUM_CELLS, len(CELL)),
    }  # fmt: skip
    out = {}
    for name, shape in shapes.items():
        if prefix + name not in arrays:
            raise ValueError(f"{prefix}{name} is missing")
        array = np.asarray(arrays[prefix + name])
        array = array if batched else array[None]
        fits = array.ndim == len(shape) + 1 and all(
            want in (None, have) for want, have in zip(shape, array.shape[1:], strict=True)
        )
        if not fits:
            raise ValueError(f"{prefix}{name} has shape {array.shape}, not (records, *{shape})")
        if array.dtype.kind not in "iub":
            raise ValueError(f"{prefix}{name} has dtype {array.dtype}, not an integer type")
        out[name] = array.astype(np.int64)
        if len(array) != len(out["player"]):
            raise ValueError(
                f"{prefix}{name} has {len(array)} records, {prefix}player has {len(out['player'])}"
            )

    def check(name: str, columns: tuple[str, ...], used: np.ndarray | None = None) -> None:
        for number, column in enumerate(columns):
            values = out[name][..., number]
            key = f"cell {column}" if f"cell {column}" in _RANGES and name == "cells" else column
            low, high = _RANGES.get(key, _BOUNDLESS)
            bad = (values < low) | (values > high)
            _refuse(bad if used is None else bad & used, prefix + name, column, values, low, high)

    for name, capacity, field in (
        ("enemies", config.max_enemies, "max_enemies"),
        ("transmissions", config.max_transmissions, "max_transmissions"),
    ):
        number, rows = out[f"num_{name}"], out[name].shape[1]
        _refuse((number < 0) | (number > rows), f"{prefix}num_{name}", "number", number, 0, rows)
        over = np.flatnonzero(number > capacity)
        if over.size:
            raise ValueError(
                f"record {over[0]}: {prefix}num_{name} is {number[over[0]]}, more than "
                f"{field}={capacity} of the config"
            )
        used = np.arange(rows) < number[:, None]
        check(name, ENEMY if name == "enemies" else TRANSMISSION, used)
        if name == "enemies":
            kinds = np.clip(out[name][..., 0], 0, NUM_ENEMY_TYPES - 1)
            hp = out[name][..., 3]
            full = np.array(ENEMY_HP)[kinds]
            _refuse(
                ((hp < 1) | (hp > full)) & used, prefix + name, "hp", hp, 1, "its type's full hp"
            )
        padded = np.zeros((len(number), capacity, out[name].shape[2]), np.int64)
        keep = min(rows, capacity)
        padded[:, :keep] = out[name][:, :keep]
        out[name] = padded
    row, col = out["enemies"][..., 6], out["enemies"][..., 7]
    _refuse((row < 0) != (col < 0), f"{prefix}enemies", "last_known", col, "both", "neither -1")
    owned = out["owned"]
    _refuse((owned < 0) | (owned > NUM_PROGRAMS), f"{prefix}owned", "place", owned, 0, NUM_PROGRAMS)
    check("player", PLAYER)
    check("game", game_columns)
    check("cells", CELL)
    content, value = out["cells"][..., 0], out["cells"][..., 1]
    data = (content == Content.DATA) | (content == Content.HIDDEN_DATA)
    program = (content == Content.PROGRAM) | (content == Content.HIDDEN_PROGRAM)
    _refuse(data & ((value < 1) | (value > 9)), f"{prefix}cells", "points", value, 1, 9)
    last = NUM_PROGRAMS - 1
    _refuse(program & (value > last), f"{prefix}cells", "program", value, 0, last)
    credits_, energy = out["cells"][..., 3], out["cells"][..., 4]
    both = (credits_ > 0) & (energy > 0)
    _refuse(both, f"{prefix}cells", "energy beside credits", energy, 0, 0)
    return {name: array.astype(np.int32) for name, array in out.items()}


def _refuse(
    bad: np.ndarray, name: str, column: str, values: np.ndarray, low: object, high: object
) -> None:
    """Raises for the first bad value, if there is one."""
    for record, *row in np.argwhere(bad)[:1].tolist():
        where = f"{name}[{row[0]}]" if row else name
        raise ValueError(
            f"record {record}: {column} of {where} is {values[(record, *row)]}, "
            f"not within {low}..{high}"
        )
