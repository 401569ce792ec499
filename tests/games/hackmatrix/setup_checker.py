"""Does a stage set-up obey section 3 of the rules? Plain Python, apart from the package."""

from collections.abc import Iterator

import numpy as np

from games.hackmatrix.recordings import Arrays

SPAWN_COSTS = (4, 4, 6, 5, 3, 1, 4, 2, 2, 3, 4, 7, 3, 2, 2, 6, 4, 4, 4, 5, 3, 8, 4)
"""Section 6, in the order of the table."""

CORNERS = frozenset([(0, 0), (0, 5), (5, 0), (5, 5)])
BLOCKS = (1, 2, 3, 4)

Cell = tuple[int, int]


def beside(cell: Cell) -> list[Cell]:
    row, col = cell
    near = [(row + 1, col), (row - 1, col), (row, col - 1), (row, col + 1)]
    return [(r, c) for r, c in near if 0 <= r <= 5 and 0 <= c <= 5]


def all_cells() -> list[Cell]:
    return [(row, col) for row in range(6) for col in range(6)]


def connected(free: set[Cell], exit_cell: Cell) -> bool:
    """Are the free cells one piece, with an exit that may be reached, not walked through?"""
    # The quirk: an exit at (0, 0) may be walked through.
    walkable = free if exit_cell == (0, 0) else free - {exit_cell}
    start = next(iter(walkable))
    reached, front = {start}, [start]
    while front:
        for cell in beside(front.pop()):
            if cell in free and cell not in reached:
                reached.add(cell)
                if cell in walkable:
                    front.append(cell)
    return reached == free


def line_of_fire(player: Cell, stops: set[Cell]) -> set[Cell]:
    """Cells of the player's row and column with no stop strictly between."""
    seen = set()
    for row_step, col_step in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        row, col = player[0] + row_step, player[1] + col_step
        while 0 <= row <= 5 and 0 <= col <= 5:
            seen.add((row, col))
            if (row, col) in stops:
                break
            row, col = row + row_step, col + col_step
    return seen


def problems(position: Arrays, standing: set[Cell], waiting: int) -> list[str]:
    """What breaks the rules right after a set-up, given what was there before."""
    return list(_problems(position, standing, waiting))


def _problems(position: Arrays, standing: set[Cell], waiting: int) -> Iterator[str]:
    stage, turn, exit_row, exit_col, show, calm, step, atk, _, due = position["game"][:10].tolist()
    interval = int(position["game"][8])
    player = tuple(position["player"][:2].tolist())
    exit_cell = (exit_row, exit_col)
    cells = {cell: position["cells"][cell[0] * 6 + cell[1]].tolist() for cell in all_cells()}
    blocks = {cell for cell in cells if cells[cell][0] in BLOCKS}

    if (turn, show, calm, step, atk) != (0, 0, 0, 0, 0):
        yield f"turn or flags are not reset: {(turn, show, calm, step, atk)}"
    if due != interval:
        yield f"the scheduled task is due at {due}, not at {interval}"

    if exit_cell not in CORNERS - {player}:
        yield f"exit at {exit_cell}, player at {player}"
    for cell in all_cells():
        wanted = 6 if cell == exit_cell else 5 if cell in CORNERS - {exit_cell, player} else None
        content = cells[cell][0]
        if wanted is not None and content != wanted:
            yield f"{cell} holds {content}, not {wanted}"
        if wanted is None and content not in (0, *BLOCKS):
            yield f"{cell} holds {content}"

    room = len(set(cells) - CORNERS - standing)
    if len(blocks) not in (0, *range(min(5, room), 12)):
        yield f"{len(blocks)} blocks"
    if blocks & CORNERS:
        yield f"blocks on corners: {sorted(blocks & CORNERS)}"
    if blocks & standing:
        yield f"blocks under enemies or transmissions: {sorted(blocks & standing)}"
    if not connected(set(cells) - blocks, exit_cell):
        yield "the free cells are not connected"
    for cell in blocks:
        if all(near in blocks for near in beside(cell)):
            yield f"the block at {cell} is walled in"

    programs = [cells[cell][1] for cell in blocks if cells[cell][0] in (2, 4)]
    if len(set(programs)) != len(programs):
        yield f"programs twice: {sorted(programs)}"
    for cell, (content, value, spawns, credits, energy, siphoned, center) in cells.items():
        if siphoned or center:
            yield f"{cell} was siphoned"
        if content in (1, 3) and not (1 <= value <= 9 and spawns == value):
            yield f"data at {cell}: {value} points, spawns {spawns}"
        if content in (2, 4) and not (0 <= value < 23 and spawns == SPAWN_COSTS[value]):
            yield f"program at {cell}: {value}, spawns {spawns}"
        if content in (0, 5, 6) and (value, spawns) != (0, 0):
            yield f"no block at {cell}: {value}, spawns {spawns}"
        bare = content in (*BLOCKS, 6)
        amounts = (
            ((0, 0),)
            if bare
            else tuple((n, 0) for n in (1, 2, 3)) + tuple((0, n) for n in (1, 2, 3))
        )
        if (credits, energy) not in amounts:
            yield f"{cell} (content {content}) has {credits} credits, {energy} energy"

    yield from _transmission_problems(position, player, blocks, stage, waiting)


def _transmission_problems(
    position: Arrays, player: Cell, blocks: set[Cell], stage: int, waiting: int
) -> Iterator[str]:
    count = int(position["num_transmissions"])
    transmissions = position["transmissions"][:count].tolist()
    enemies = {tuple(e[1:3]) for e in position["enemies"][: position["num_enemies"]].tolist()}
    fire = line_of_fire(player, blocks | enemies)
    taken = {player} | blocks | enemies | {tuple(t[:2]) for t in transmissions[:waiting]}
    if count != waiting + min(stage, 36 - len(taken)):
        yield f"{count} transmissions on stage {stage}, {waiting} of them from before"
    for row, col, turns, kind, scheduled, siphon in transmissions[waiting:]:
        free = set(all_cells()) - taken
        if (row, col) not in free:
            yield f"a transmission on a taken cell {(row, col)}"
        elif (row, col) in fire and free - fire:
            yield f"a transmission in the line of fire {(row, col)}"
        if turns != 1 or scheduled or siphon or kind not in range(4):
            yield f"a new transmission with {turns} turns, type {kind}, flags {scheduled, siphon}"
        taken.add((row, col))


def setup_problems(positions: Arrays, carried: np.ndarray | None = None) -> list[str]:
    """`problems` of many set-ups, each with some transmissions of the stage before."""
    lines = []
    for record in range(len(positions["player"])):
        position = {key: value[record] for key, value in positions.items()}
        waiting = 0 if carried is None else int(carried[record])
        enemies = position["enemies"][: position["num_enemies"], 1:3]
        things = np.concatenate([enemies, position["transmissions"][:waiting, :2]])
        standing = {tuple(cell) for cell in things.tolist()}
        lines += [f"record {record}: {line}" for line in problems(position, standing, waiting)]
    return lines
