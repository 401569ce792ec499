"""Converts game states to frames."""

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from hackmatrix_rl.games.hackmatrix import (
    COLUMNS,
    SIZE,
    Content,
    EnemyType,
    Program,
    State,
    to_arrays,
)
from hackmatrix_rl.view._frame import DATA, PROGRAMS, Cell, Enemy, Frame, Transmission

Made = TypeVar("Made", Frame, Cell, Enemy, Transmission)


def frame_of(state: State) -> Frame:
    """The frame of one game.

    Raises:
        ValueError: the state is a batch; use `frames_of`.
    """
    if state.position.stage.ndim:
        raise ValueError("state is a batch of games; use frames_of, or pick one of them")
    return _frame(to_arrays(state))


def frames_of(states: State) -> list[Frame]:
    """The frames of a batch of games."""
    arrays = to_arrays(states)
    return [
        _frame({name: array[number] for name, array in arrays.items()})
        for number in range(len(arrays["player"]))
    ]


def _frame(arrays: dict[str, np.ndarray]) -> Frame:
    columns = _columns(arrays)
    player, game = columns["player"], columns["game"]
    player_cell = player["row"] * SIZE + player["col"]
    show = bool(game["show_activated"])
    enemies = _enemies(columns["enemies"], player_cell, show)
    hints = {
        enemy.last_known
        for number, enemy in enumerate(enemies)
        if not enemy.visible
        and enemy.last_known is not None
        and all(other.cell != enemy.cell for other in enemies[:number])
    }
    return _filled(
        Frame,
        {**game, **player},
        cells=tuple(_cell(record) for record in columns["cells"]),
        enemies=enemies,
        transmissions=_transmissions(columns["transmissions"], show),
        player_cell=player_cell,
        owned=tuple(program for program in Program if arrays["owned"][program]),
        exit_cell=game["exit row"] * SIZE + game["exit col"],
        last_known_cells=frozenset(hints),
    )


def _filled(kind: type[Made], record: dict[str, int], **known: Any) -> Made:
    """Builds a dataclass from `known` fields and the columns of a record, cast to int or bool."""
    columns = [each for each in fields(kind) if each.name in record and each.name not in known]
    plain: dict[str, Any] = {
        each.name: bool(record[each.name]) if each.type is bool else record[each.name]
        for each in columns
    }
    return kind(**plain, **known)


def _columns(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    def named(name: str, row: np.ndarray) -> dict[str, int]:
        return dict(zip(COLUMNS[name], map(int, row), strict=True))

    found: dict[str, Any] = {name: named(name, arrays[name]) for name in ("player", "game")}
    found["cells"] = [named("cells", row) for row in arrays["cells"]]
    for name in ("enemies", "transmissions"):
        rows = arrays[name][: int(arrays[f"num_{name}"])]
        found[name] = [named(name, row) for row in rows]
    return found


def _cell(record: dict[str, int]) -> Cell:
    content = Content(record["content"])
    points = record["value"] if content in DATA else 0
    program = Program(record["value"]) if content in PROGRAMS else None
    return _filled(Cell, record, content=content, points=points, program=program)


def _enemies(records: list[dict[str, int]], player_cell: int, show: bool) -> tuple[Enemy, ...]:
    found: list[Enemy] = []
    for record in records:
        row, col, kind = record["row"], record["col"], EnemyType(record["type"])
        in_line = row == player_cell // SIZE or col == player_cell % SIZE
        last = record["last_known row"] * SIZE + record["last_known col"]
        cell = row * SIZE + col
        is_first = all(other.cell != cell for other in found)
        enemy = _filled(
            Enemy,
            record,
            type=kind,
            cell=cell,
            last_known=last if record["last_known row"] >= 0 else None,
            visible=is_first and (show or in_line or kind != EnemyType.CRYPTOG),
        )
        found.append(enemy)
    return tuple(found)


def _transmissions(records: list[dict[str, int]], show: bool) -> tuple[Transmission, ...]:
    found: list[Transmission] = []
    for record in records:
        cell = record["row"] * SIZE + record["col"]
        transmission = _filled(
            Transmission,
            record,
            type=EnemyType(record["type"]),
            cell=cell,
            type_visible=show,
            visible=all(other.cell != cell for other in found),
        )
        found.append(transmission)
    return tuple(found)
