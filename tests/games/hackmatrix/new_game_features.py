"""What is looked at in a freshly set up stage, to compare many of them as distributions."""

import numpy as np

from games.hackmatrix.outcomes import Labels
from games.hackmatrix.recordings import Arrays, canonical
from games.hackmatrix.setup_checker import beside, connected, line_of_fire

DATA, PROGRAM, HIDDEN_DATA, HIDDEN_PROGRAM, PICKUP, EXIT = range(1, 7)

_BESIDE = np.zeros((36, 36), np.int64)
for _cell in range(36):
    for _row, _col in beside(divmod(_cell, 6)):
        _BESIDE[_cell, _row * 6 + _col] = 1


def features(position: Arrays, carried: np.ndarray | None = None) -> Labels:
    """Labels by question: one a set-up, or (points, contents, resources) one a block or cell."""
    position = canonical(position)
    player, cells = position["player"], position["cells"]
    content, value = cells[..., 0], cells[..., 1]
    count = len(player)
    here = player[:, 0] * 6 + player[:, 1]
    exit_cell = position["game"][:, 2] * 6 + position["game"][:, 3]
    block = (content >= DATA) & (content <= HIDDEN_PROGRAM)
    program = (content == PROGRAM) | (content == HIDDEN_PROGRAM)
    hidden = (content == HIDDEN_DATA) | (content == HIDDEN_PROGRAM)
    number = block.sum(axis=1)
    amount = cells[..., 3] + 10 * cells[..., 4]
    near = block @ _BESIDE
    pairs = (near * block).sum(axis=1) // 2
    whole = np.arange(count)

    labels = {
        "player's corner": here,
        "starting bonus": player[:, 3] * 10000 + player[:, 4] * 100 + player[:, 5],
        "player's corner and exit": here * 36 + exit_cell,
        "number of blocks": number,
        "blocks and how many of them are programs": number * 12 + program.sum(axis=1),
        "blocks and how many of them are hidden": number * 12 + hidden.sum(axis=1),
        "blocks and pairs of neighbours among them": number * 40 + pairs,
        "blocks and blocks beside the player": number * 3 + near[whole, here],
        "exit and blocks beside it": exit_cell * 3 + near[whole, exit_cell],
        "exit and whether paths lead through it": _paths_through_exit(block, exit_cell),
        "content of a block": content[block],
        "points": value[block & ~program],
        "first program": np.where(program.any(1), value[whole, program.argmax(1)], -1),
        "resource of a free cell": amount[~block & (content != EXIT)],
        "resource of the player's cell": amount[whole, here],
        "resource of a pickup": amount[content == PICKUP],
        "resources on the board": (amount > 0).sum(axis=1) + 40 * number,
    }
    for cell in range(36):
        labels[f"content of cell {cell}"] = content[:, cell]
    for index in range(23):
        labels[f"program {index} present"] = (program & (value == index)).any(axis=1)
    return labels | _transmissions(position, block, carried)


def _transmissions(position: Arrays, block: np.ndarray, carried: np.ndarray | None) -> Labels:
    count = len(block)
    first = np.zeros(count, np.int64) if carried is None else carried
    new = position["transmissions"][np.arange(count), first]
    fire = np.zeros(count, np.int64)
    for record in range(count):
        enemies = position["enemies"][record, : position["num_enemies"][record], 1:3]
        blocks = {divmod(int(cell), 6) for cell in np.flatnonzero(block[record])}
        stops = blocks | {tuple(cell) for cell in enemies.tolist()}
        seen = line_of_fire(tuple(position["player"][record, :2].tolist()), stops)
        fire[record] = tuple(new[record, :2].tolist()) in seen
    return {
        "number of new transmissions": position["num_transmissions"] - first,
        "cell of the first new transmission": new[:, 0] * 6 + new[:, 1],
        "type of the first new transmission": new[:, 3],
        "first new transmission in the line of fire": fire,
    }


def _paths_through_exit(block: np.ndarray, exit_cell: np.ndarray) -> np.ndarray:
    """Which exit it is, and whether the free cells fall apart without it."""
    through = np.zeros(len(block), np.int64)
    for record in np.flatnonzero(exit_cell == 0):
        free = {divmod(int(cell), 6) for cell in np.flatnonzero(~block[record])} - {(0, 0)}
        through[record] = not connected(free, (0, 0))
    return exit_cell * 2 + through
