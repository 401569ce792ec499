"""Positions that the pictures are made from."""

from functools import cache

import numpy as np
from games.hackmatrix.positions import block_of, daemon, data, glitch, position, transmission, virus
from games.hackmatrix.recordings import COLUMNS, CONFIG, Arrays

from hackmatrix_rl.games.hackmatrix import (
    Content,
    EnemyType,
    Program,
    State,
    from_arrays,
    legal_actions,
)
from hackmatrix_rl.view import Frame, frame_of

PICKUP = {"content": int(Content.PICKUP)}


def cryptog(row: int, col: int, **more: int) -> dict[str, int]:
    """A cryptog at full hp."""
    return virus(row, col) | {"type": int(EnemyType.CRYPTOG)} | more


def hidden_data(points: int, **more: int) -> dict[str, int]:
    """A question block with data."""
    return data(points) | {"content": int(Content.HIDDEN_DATA)} | more


def hidden_program(program: Program, **more: int) -> dict[str, int]:
    """A question block with a program."""
    return block_of(program, 2) | {"content": int(Content.HIDDEN_PROGRAM)} | more


def everything() -> Arrays:
    """At least one of each thing that a picture shows."""
    return position(
        player=(1, 2),
        programs=[Program.PUSH, Program.WAIT, Program.SIPH_PLUS, Program.ANTI_V, Program.D_BOM],
        enemies=[
            virus(1, 4, hp=1, stunned=1),
            daemon(3, 2, disabled_turns=1, spawned_from_siphon=1),
            glitch(2, 1),
            cryptog(4, 4, last_known_row=1, last_known_col=1),
            virus(4, 0),
            daemon(4, 0),
            virus(2, 3),
        ],
        transmissions=[
            transmission(5, 3),
            transmission(0, 2, EnemyType.GLITCH, turns_remaining=3),
            transmission(3, 5, spawned_from_siphon=1),
        ],
        cells={
            (1, 1): data(6),
            (2, 2): block_of(Program.UNDO, 3),
            (0, 5): PICKUP,
            (5, 0): PICKUP,
            (3, 3): hidden_data(4, credits=2),
            (3, 0): hidden_program(Program.RESET),
            (2, 4): data(9) | {"siphoned": 1, "spawn_count": 0, "energy": 3},
            (0, 0): {"credits": 3},
            (0, 1): {"energy": 2},
            (1, 3): {"credits": 1},
            (1, 2): {"credits": 2},
            (4, 5): {"energy": 1, "siphoned": 1, "siphon_center": 1},
            (5, 4): block_of(Program.ANTI_V, 4),
            (2, 1): data(3),
        },
        **{"credits": 7, "energy": 11, "data_siphons": 1, "score": 42},
        **{"stage": 3, "turn": 17, "snapshots": 4, "next_scheduled_task_turn": 21},
    )


def crowded() -> Arrays:
    """Several things on one cell, the largest numbers, every program."""
    most = 10**9
    arrays = position(
        player=(3, 3),
        programs=list(Program),
        enemies=[
            *(virus(3, 3), glitch(3, 3), daemon(0, 0), cryptog(0, 0), virus(0, 0)),
            *(daemon(0, 1), cryptog(0, 1), glitch(0, 1), virus(0, 1, hp=1)),
            *(daemon(5, 0, hp=1), glitch(5, 0)),
            *(glitch(3, 4), virus(3, 2), daemon(4, 3, hp=2), cryptog(2, 3)),
        ],
        transmissions=[
            *(transmission(3, 3), transmission(0, 0), transmission(5, 5, turns_remaining=9)),
            *(transmission(1, 5, turns_remaining=7), transmission(1, 5), transmission(0, 1)),
            transmission(3, 4, EnemyType.DAEMON),
        ],
        cells={
            (3, 4): block_of(Program.CRASH, 6),
            (0, 0): {"credits": 3},
            (3, 3): data(9) | {"credits": 1, "siphoned": 1},
            (5, 0): data(7),
            (0, 1): hidden_program(Program.SIPH_PLUS),
            (1, 1): PICKUP,
        },
        **{"credits": most, "energy": most, "data_siphons": most, "score": most},
        **{"attack_damage": most, "stage": 8, "turn": most, "snapshots": 8, "hp": 1},
        **{"next_scheduled_task_turn": most, "show_activated": 1, "step_active": 0},
    )
    arrays["transmissions"] = arrays["transmissions"].astype(np.int32)
    arrays["transmissions"][0, 6, column("transmissions", "turns_remaining")] = 2_000_000
    return arrays


def quiet() -> Arrays:
    """A first turn, without a data siphon."""
    return position(
        player=(0, 0),
        transmissions=[transmission(3, 4)],
        cells={
            (0, 5): PICKUP,
            (5, 0): PICKUP,
            (0, 1): data(8),
            (2, 2): data(1),
            (3, 1): block_of(Program.ROW, 2),
            (1, 4): hidden_data(5),
            (4, 4): {"energy": 2},
            (1, 0): {"credits": 2},
        },
        credits=10,
        scheduled_tasks_disabled=1,
    )


POSITIONS = {"everything": everything, "crowded": crowded, "quiet": quiet}


@cache
def frame(name: str) -> Frame:
    """The complete frame of a position by its name."""
    return frame_of(state(name))


def state(name: str) -> State:
    """The game at a position by its name."""
    return single(POSITIONS[name]())


def state_of(**given: object) -> State:
    """The game of a position that `game.positions.position` describes."""
    return single(position(**given))


def single(arrays: Arrays) -> State:
    """One game, not a batch of one."""
    return from_arrays(CONFIG, {name: array[0] for name, array in arrays.items()})


def mask_of(state: State) -> np.ndarray:
    """The legal actions."""
    return np.asarray(legal_actions(CONFIG, state))


def column(name: str, field: str) -> int:
    """The place of a field in the rows of an array."""
    return COLUMNS[name].split().index(field)
