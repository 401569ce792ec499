"""Builds positions that read like the rules: `position(player=(0, 0), enemies=[virus(3, 3)])`."""

from typing import Any

import numpy as np

from games.hackmatrix.recordings import COLUMNS, Arrays
from hackmatrix_rl.games.hackmatrix import Content, EnemyType, Program
from hackmatrix_rl.games.hackmatrix._state import ENEMY_HP

Row = dict[str, int]


def _enemy(kind: EnemyType, row: int, col: int, more: Row) -> Row:
    hp = {"hp": int(ENEMY_HP[kind])}
    unknown = {"last_known_row": -1, "last_known_col": -1}
    return {"type": int(kind), "row": row, "col": col} | hp | unknown | more


def virus(row: int, col: int, **more: int) -> Row:
    """A virus at full hp."""
    return _enemy(EnemyType.VIRUS, row, col, more)


def daemon(row: int, col: int, **more: int) -> Row:
    """A daemon at full hp."""
    return _enemy(EnemyType.DAEMON, row, col, more)


def glitch(row: int, col: int, **more: int) -> Row:
    """A glitch at full hp."""
    return _enemy(EnemyType.GLITCH, row, col, more)


def transmission(row: int, col: int, kind: EnemyType = EnemyType.VIRUS, **more: int) -> Row:
    """A transmission that arrives in the coming turn."""
    return {"row": row, "col": col, "turns_remaining": 1, "type": int(kind)} | more


def data(points: int) -> Row:
    """A data block."""
    return {"content": int(Content.DATA), "value": points, "spawn_count": points}


def block_of(program: Program, spawn_count: int = 1) -> Row:
    """A program block."""
    content = int(Content.PROGRAM)
    return {"content": content, "value": int(program), "spawn_count": spawn_count}


def position(
    player: tuple[int, int] = (0, 0),
    *,
    exit: tuple[int, int] = (5, 5),
    enemies: list[Row] | None = None,
    transmissions: list[Row] | None = None,
    cells: dict[tuple[int, int], Row] | None = None,
    programs: list[Program] | None = None,
    **numbers: int,
) -> Arrays:
    """One position in the layout of the recordings, with a batch axis.

    Cells are (row, column); `numbers` are columns of `player` or `game` unlike those at the start.
    """
    here = {"row": player[0], "col": player[1], "hp": 3, "attack_damage": 1}
    game = {
        "stage": 1,
        "exit_row": exit[0],
        "exit_col": exit[1],
        "scheduled_task_interval": 12,
        "next_scheduled_task_turn": 12,
    }
    owned = np.zeros((1, len(Program)), np.int8)
    owned[0, [int(program) for program in programs or []]] = 1
    board = np.zeros((1, 36, len(COLUMNS["cells"].split())), np.int8)
    for (row, col), content in ({exit: {"content": int(Content.EXIT)}} | (cells or {})).items():
        board[0, row * 6 + col] = _row("cells", content)
    arrays: Arrays = {
        "player": _row("player", here | _known(numbers, "player"))[None],
        "game": _row("game", game | _known(numbers, "game"))[None],
        "owned": owned,
        "cells": board,
    }
    for name, entries in (("enemies", enemies or []), ("transmissions", transmissions or [])):
        table = np.zeros((1, 40, len(COLUMNS[name].split())), np.int8)
        for index, entry in enumerate(entries):
            table[0, index] = _row(name, entry)
        arrays[name] = table
        arrays[f"num_{name}"] = np.array([len(entries)], np.int8)
    return arrays


def _known(numbers: dict[str, int], name: str) -> dict[str, int]:
    return {key: value for key, value in numbers.items() if key in COLUMNS[name].split()}


def _row(name: str, values: dict[str, Any]) -> np.ndarray:
    columns = COLUMNS[name].split()
    unknown = set(values) - set(columns)
    assert not unknown, f"{name} has no {unknown}"
    return np.array([values.get(column, 0) for column in columns], np.int32)
