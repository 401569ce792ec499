"""The screen as the protocol's `observation`: written for a client, and read from an app.

`seen_of` is the inverse of `observation_of`: `seen_of(observation_of(view))` equals `view.seen`.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from hackmatrix_rl.env import CELL, CompactObservation, Number, Sight
from hackmatrix_rl.games.hackmatrix import (
    CORNERS,
    ENEMY_HP,
    FIRST_PROGRAM,
    GIVEN_POINTS,
    LAST_STAGE,
    MAX_HP,
    NUM_ACTIONS,
    NUM_CELLS,
    NUM_PROGRAMS,
    SIZE,
    Transmissions,
)
from hackmatrix_rl.interop.protocol._engine import View
from hackmatrix_rl.interop.protocol._given_state import PROGRAMS, TYPES, cell_of
from hackmatrix_rl.interop.protocol._records import Record
from hackmatrix_rl.system.batching import BitField
from hackmatrix_rl.system.errors import ConfigError

Json = dict[str, Any]

_NUMBERS = {
    "playerRow": Number.ROW,
    "playerCol": Number.COL,
    "playerHP": Number.HP,
    "credits": Number.CREDITS,
    "energy": Number.ENERGY,
    "stage": Number.STAGE,
    "turn": Number.TURN,
    "dataSiphons": Number.DATA_SIPHONS,
    "baseAttack": Number.ATTACK_DAMAGE,
    "score": Number.SCORE,
}
_RANGES = {
    "playerRow": (0, SIZE - 1),
    "playerCol": (0, SIZE - 1),
    "playerHP": (0, MAX_HP),
    "stage": (1, LAST_STAGE),
}
_FLAGS = {
    "showActivated": Number.SHOW_ACTIVATED,
    "scheduledTasksDisabled": Number.SCHEDULED_TASKS_DISABLED,
}
_OBSERVATION = (*_NUMBERS, *_FLAGS, "ownedPrograms", "cells", "cryptogHints")
_CELL = (
    "row", "col", "isDataSiphon", "isExit", "siphonCenter", "enemy", "block", "transmission",
    "credits", "energy",
)  # fmt: skip
_ENEMY = ("type", "hp", "isStunned", "spawnedFromSiphon")
_BLOCK = (
    "blockType", "isSiphoned", "points", "programType", "programActionIndex",
    "transmissionSpawnCount",
)  # fmt: skip
_TRANSMISSION = ("turnsUntilSpawn", "enemyType")
_BLOCKS = tuple(each.name.lower() for each in (Sight.DATA, Sight.PROGRAM, Sight.QUESTION))


def observation_of(view: View) -> Json:
    """The `observation` of a position."""
    numbers, seen = view.seen.numbers.tolist(), view.seen
    planes = {name: field_of(seen.grid, name) for name in CELL}
    planes["transmission"] = _turns(view)
    owned = int(seen.programs)
    cells = [
        _json_cell(cell, {name: plane[cell] for name, plane in planes.items()})
        for cell in range(NUM_CELLS)
    ]
    return {
        **{name: numbers[number] for name, number in _NUMBERS.items()},
        **{name: bool(numbers[number]) for name, number in _FLAGS.items()},
        "ownedPrograms": [
            FIRST_PROGRAM + program for program in range(NUM_PROGRAMS) if owned >> program & 1
        ],
        "cells": [cells[row * SIZE : (row + 1) * SIZE] for row in range(SIZE)],
        "cryptogHints": [
            {"row": cell // SIZE, "col": cell % SIZE}
            for cell, hint in enumerate(planes["last_known"])
            if hint
        ],
    }


def field_of(words: ArrayLike, name: str, fields: Mapping[str, BitField] = CELL) -> list[int]:
    """One field of each packed word: `[0b1001, 0b0110] -> [2, 1]` for two bits from bit 2 up."""
    field = fields[name]
    found: list[int] = (np.asarray(words) >> field.shift & field.largest).tolist()
    return found


def _turns(view: View) -> list[int]:
    """Turns until the first transmission of each cell spawns, 0 without one. `CELL` caps them."""
    turns = [0] * NUM_CELLS
    names = ("present", "cell", "turns_remaining")
    read = (field_of(view.transmissions, name, Transmissions.FIELDS) for name in names)
    for present, cell, left in reversed(list(zip(*read, strict=True))):
        if present:
            turns[cell] = left
    return turns


def _json_cell(cell: int, seen: dict[str, int]) -> Json:
    content = seen["content"]
    found: Json = {
        "row": cell // SIZE,
        "col": cell % SIZE,
        "isDataSiphon": content == Sight.PICKUP,
        "isExit": content == Sight.EXIT,
        "siphonCenter": bool(seen["siphon_center"]),
        "credits": seen["credits"],
        "energy": seen["energy"],
    }
    if seen["enemy"]:
        found["enemy"] = {
            "type": TYPES[seen["enemy"] - 1],
            "hp": seen["enemy_hp"],
            "isStunned": bool(seen["enemy_stunned"]),
            "spawnedFromSiphon": bool(seen["enemy_from_siphon"]),
        }
    if Sight.DATA <= content <= Sight.QUESTION:
        found["block"] = _json_block(Sight(content), seen)
    if seen["transmission"]:
        found["transmission"] = {"turnsUntilSpawn": seen["transmission"]}
        if seen["transmission_type"]:
            found["transmission"]["enemyType"] = TYPES[seen["transmission_type"] - 1]
    return found


def _json_block(sight: Sight, seen: dict[str, int]) -> Json:
    block: Json = {"blockType": _BLOCKS[sight - Sight.DATA], "isSiphoned": bool(seen["siphoned"])}
    if sight == Sight.QUESTION:
        return block
    if sight == Sight.DATA:
        block["points"] = seen["value"]
    else:
        block["programType"] = PROGRAMS[seen["value"]]
        block["programActionIndex"] = FIRST_PROGRAM + seen["value"]
    block["transmissionSpawnCount"] = seen["spawn_count"]
    return block


def seen_of(observation: Any) -> CompactObservation:
    """The compact observation of an `observation`."""
    given = Record(observation, "observation", _OBSERVATION)
    numbers = np.zeros(len(Number), np.int32)
    for name, number in _NUMBERS.items():
        numbers[number] = given.whole(name, *_RANGES.get(name, ()))
    for name, number in _FLAGS.items():
        numbers[number] = given.truth(name)
    owned = given.wholes("ownedPrograms", FIRST_PROGRAM, NUM_ACTIONS - 1)
    grid = [0] * NUM_CELLS
    for place, record in enumerate(_cells(given)):
        cell, word = _word(record)
        if cell != place:
            raise ConfigError(f"observation.cells has cell {cell} in place {place}")
        grid[cell] = word
    for hint in given.records("cryptogHints", ("row", "col"), most=NUM_CELLS):
        grid[cell_of(hint)] |= 1 << CELL["last_known"].shift
    return CompactObservation(
        numbers=jnp.asarray(numbers),
        programs=jnp.uint32(sum(1 << (action - FIRST_PROGRAM) for action in set(owned))),
        grid=jnp.asarray(grid, jnp.uint32),
    )


def _cells(given: Record) -> list[Record]:
    """The 36 cells, row by row."""
    rows = given.lists("cells", SIZE)
    return [
        Record(value, f"observation.cells[{row}][{col}]", _CELL)
        for row, values in enumerate(rows)
        for col, value in enumerate(values)
    ]


def _word(record: Record) -> tuple[int, int]:
    """A cell's number and its packed word."""
    place = cell_of(record)
    found: dict[str, int] = {"siphon_center": record.truth("siphonCenter", default=False)}
    for name in ("credits", "energy"):
        found[name] = record.whole(name, 0, CELL[name].largest, default=0)
    if record.truth("isDataSiphon", default=False):
        found["content"] = Sight.PICKUP
    if record.truth("isExit", default=False):
        found["content"] = Sight.EXIT
        if place not in CORNERS:
            record.refuse("isExit", True, "false: exits are on corners")
    if (block := record.optional("block", _BLOCK)) is not None:
        found |= _block_of(block)
    if (enemy := record.optional("enemy", _ENEMY)) is not None:
        kind = enemy.choice("type", TYPES)
        found["enemy"] = kind + 1
        found["enemy_hp"] = enemy.whole("hp", 1, ENEMY_HP[kind])
        found["enemy_stunned"] = enemy.truth("isStunned", default=False)
        found["enemy_from_siphon"] = enemy.truth("spawnedFromSiphon", default=False)
    if (coming := record.optional("transmission", _TRANSMISSION)) is not None:
        turns = coming.whole("turnsUntilSpawn")
        found["transmission"] = min(turns, CELL["transmission"].largest)
        if coming.has("enemyType"):
            found["transmission_type"] = coming.choice("enemyType", TYPES) + 1
    return place, sum(value << CELL[name].shift for name, value in found.items())


def _block_of(block: Record) -> dict[str, int]:
    sight = Sight.DATA + block.choice("blockType", _BLOCKS)
    found = {"content": int(sight), "siphoned": int(block.truth("isSiphoned", default=False))}
    # Every field is checked, also one that this kind of block does not use: a record stores it.
    value: dict[int, int] = {}
    if sight == Sight.DATA or block.has("points"):
        value[Sight.DATA] = block.whole("points", 0, GIVEN_POINTS)
    if sight == Sight.PROGRAM or block.has("programActionIndex"):
        action = block.whole("programActionIndex", FIRST_PROGRAM, NUM_ACTIONS - 1)
        value[Sight.PROGRAM] = action - FIRST_PROGRAM
    if block.has("programType"):
        block.text("programType")
    most = CELL["spawn_count"].largest
    spawn_count = block.whole("transmissionSpawnCount", 0, most, default=0)
    if sight == Sight.QUESTION:
        return found
    return found | {"value": value[sight], "spawn_count": spawn_count}
