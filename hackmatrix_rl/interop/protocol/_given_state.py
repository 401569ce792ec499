"""The `state` of a `setState` request as the arrays of a position."""

from typing import Any

import numpy as np

from hackmatrix_rl.games.hackmatrix import (
    COLUMNS,
    ENEMY_HP,
    FIRST_INTERVAL,
    FIRST_PROGRAM,
    GIVEN_POINTS,
    LAST_STAGE,
    MAX_HP,
    NUM_ACTIONS,
    NUM_CELLS,
    NUM_PROGRAMS,
    SIZE,
    SPECS,
    Action,
    Board,
    Content,
    EnemyType,
    Program,
)
from hackmatrix_rl.interop.protocol._records import Record
from hackmatrix_rl.system.errors import ConfigError

Arrays = dict[str, np.ndarray]
"""A position in the arrays of `hackmatrix_rl.games.hackmatrix.from_arrays`."""

TYPES = tuple(kind.name.lower() for kind in EnemyType)
PROGRAMS = tuple(Action(number).label for number in range(FIRST_PROGRAM, NUM_ACTIONS))
"""The protocol's names of enemies and programs."""

_CELL = ("row", "col")
_STATE = (
    "player", "enemies", "transmissions", "blocks", "resources", "ownedPrograms", "stage", "turn",
    "showActivated", "scheduledTasksDisabled",
)  # fmt: skip
_PLAYER = (*_CELL, "hp", "credits", "energy", "dataSiphons", "attackDamage", "score")
_ENEMY = (*_CELL, "type", "hp", "stunned", "spawnedFromSiphon", "isFromScheduledTask")
_TRANSMISSION = (*_CELL, "turnsRemaining", "enemyType")
_BLOCK = (
    *_CELL, "type", "points", "spawnCount", "siphoned", "programType", "programActionIndex",
)  # fmt: skip
_RESOURCE = (*_CELL, "credits", "energy", "dataSiphon")

_EXITS = (35, 30, 5, 0)
"""Cells for the exit; the first free one is used, because a request does not contain the exit."""


def arrays_of(state: Any) -> Arrays:
    """The position of a request.

    Parts that a request does not contain have these values. The exit is on the first empty corner
    of (5, 5), (5, 0), (0, 5) and (0, 0). The history is empty, and no transmissions are pending.
    The interval of scheduled tasks follows from the stage. The next task comes at the turn of the
    stage's first task, or one interval from now if that turn has passed.
    """
    given = Record(state, "state", _STATE)
    player = given.record("player", _PLAYER)
    stage = given.whole("stage", 1, LAST_STAGE, default=1)
    turn = given.whole("turn", default=0)
    interval = FIRST_INTERVAL + 1 - stage
    cells = _cells(given)
    here = cell_of(player)
    exit_cell = _place_exit(cells, here)
    owned = np.zeros(NUM_PROGRAMS, np.int8)
    for place, action in enumerate(given.wholes("ownedPrograms", FIRST_PROGRAM, NUM_ACTIONS - 1)):
        owned[action - FIRST_PROGRAM] = place + 1
    enemies = [_enemy(each) for each in given.records("enemies", _ENEMY)]
    transmissions = [_transmission(each) for each in given.records("transmissions", _TRANSMISSION)]
    return {
        "player": np.array(
            [
                *divmod(here, SIZE),
                player.whole("hp", 0, MAX_HP, default=MAX_HP),
                player.whole("credits", default=0),
                player.whole("energy", default=0),
                player.whole("dataSiphons", default=0),
                player.whole("score", default=0),
                player.whole("attackDamage", default=1),
            ]
        ),
        "game": np.array(
            [
                stage,
                turn,
                *divmod(exit_cell, SIZE),
                given.truth("showActivated", default=False),
                given.truth("scheduledTasksDisabled", default=False),
                False,
                0,
                interval,
                interval if turn < interval else turn + interval,
                0,
                0,
            ]
        ),
        "owned": owned,
        "enemies": _table("enemies", enemies),
        "num_enemies": np.array(len(enemies)),
        "transmissions": _table("transmissions", transmissions),
        "num_transmissions": np.array(len(transmissions)),
        "cells": cells,
    }


def cell_of(record: Record) -> int:
    """The cell of the fields `row` and `col`."""
    return record.whole("row", 0, SIZE - 1) * SIZE + record.whole("col", 0, SIZE - 1)


def _table(name: str, rows: list[list[int]]) -> np.ndarray:
    return np.array(rows, np.int64).reshape(len(rows), len(COLUMNS[name]))


def _enemy(record: Record) -> list[int]:
    kind, (row, col) = record.choice("type", TYPES), divmod(cell_of(record), SIZE)
    last_known = (row, col) if kind == EnemyType.CRYPTOG else (-1, -1)
    return [
        kind,
        row,
        col,
        record.whole("hp", 1, ENEMY_HP[kind]),
        0,
        record.truth("stunned", default=False),
        *last_known,
        record.truth("isFromScheduledTask", default=False),
        record.truth("spawnedFromSiphon", default=False),
    ]


def _transmission(record: Record) -> list[int]:
    turns, kind = record.whole("turnsRemaining"), record.choice("enemyType", TYPES)
    return [*divmod(cell_of(record), SIZE), turns, kind, False, False]


def _cells(given: Record) -> np.ndarray:
    """The table of cells, without the exit."""
    cells = np.zeros((NUM_CELLS, len(COLUMNS["cells"])), np.int64)
    column = {name: number for number, name in enumerate(COLUMNS["cells"])}
    for record in given.records("blocks", _BLOCK):
        block = _block(record)
        row = cells[cell_of(record)]
        row[: len(block)] = block
        row[column["siphoned"]] = record.truth("siphoned", default=False)
    for record in given.records("resources", _RESOURCE):
        row = cells[cell_of(record)]
        # The word of a cell has two bits for each.
        for name in ("credits", "energy"):
            row[column[name]] = record.whole(name, 0, Board.FIELDS[name].largest, default=0)
        if record.truth("dataSiphon", default=False):
            row[column["content"]] = Content.PICKUP
    return cells


def _block(record: Record) -> list[int]:
    most = Board.FIELDS["spawn_count"].largest
    if record.choice("type", ("data", "program")) == 0:
        points = record.whole("points", 0, GIVEN_POINTS, default=1)
        return [Content.DATA, points, record.whole("spawnCount", 0, most, default=points)]
    if record.has("programActionIndex"):
        program = record.whole("programActionIndex", FIRST_PROGRAM, NUM_ACTIONS - 1) - FIRST_PROGRAM
    else:
        program = record.choice("programType", PROGRAMS)
    cost = SPECS[Program(program)].spawn_cost
    return [Content.PROGRAM, program, record.whole("spawnCount", 0, most, default=cost)]


def _place_exit(cells: np.ndarray, player: int) -> int:
    """Places the exit on the board; returns its cell."""
    for cell in _EXITS:
        if cell != player and cells[cell, 0] == Content.EMPTY:
            cells[cell, 0] = Content.EXIT
            return cell
    raise ConfigError("state leaves no corner for the exit: all four are occupied")
