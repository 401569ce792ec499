"""Mazes and the shortest path through them."""

import itertools
from collections import deque
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.games.puzzles._examples import ATTEMPTS, Examples, ExampleStream, different
from hackmatrix_rl.system.errors import whole

WALL, FLOOR, START, GOAL, WAY = range(5)
"""The tokens of a cell. The solution has `WAY` on the shortest path from `START` to `GOAL`."""
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))

Cell = tuple[int, int]


def maze(
    rows: int, cols: int, *, openings: int = 0, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A random maze, and the maze with its unique shortest path: two arrays of tokens.

    The maze is a spanning tree of the cells, with `openings` additional walls removed.

    Args:
        rows: rows of the board, with its outer walls; odd, at least 5.
        cols: columns of the board, with its outer walls; odd, at least 5.
        openings: walls removed to create loops.
        rng: source of randomness.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is out of range, or no maze with a unique shortest path was found.
    """
    for name, size in (("rows", rows), ("cols", cols)):
        if whole(name, size, 5) % 2 == 0:
            raise ValueError(f"{name} must be odd: walls lie between cells, not {size}")
    whole("openings", openings, 0)
    for _ in range(ATTEMPTS):
        board = _tree(rows, cols, rng)
        inside = [
            (row, col)
            for row in range(1, rows - 1)
            for col in range(1, cols - 1)
            if (row + col) % 2 and board[row, col] == WALL
        ]
        if openings > len(inside):
            raise ValueError(
                f"openings must be at most {len(inside)}, the inner walls that stand, not "
                f"{openings}"
            )
        for index in rng.permutation(len(inside))[:openings]:
            board[inside[index]] = FLOOR
        floor = np.argwhere(board == FLOOR)
        start, goal = ((int(row), int(col)) for row, col in rng.permutation(floor)[:2])
        way = _only_shortest_way(board, start, goal)
        if way is not None:
            board[start], board[goal] = START, GOAL
            solved = board.copy()
            for cell in way[1:-1]:
                solved[cell] = WAY
            return board, solved
    raise ValueError(
        f"no maze of {rows} x {cols} with one shortest way in {ATTEMPTS} attempts; use fewer "
        "openings"
    )


def mazes(rows: int, cols: int, count: int, *, openings: int = 0, seed: int) -> ExampleStream:
    """A stream of `count` distinct mazes, with reflections and transposition as augmentation.

    Args:
        rows: see `maze`.
        cols: see `maze`.
        count: number of mazes.
        openings: see `maze`.
        seed: seed of all random numbers.

    Raises:
        TypeError: see `maze`.
        ValueError: see `maze`, or too few distinct mazes were found.
    """
    rng = np.random.default_rng(seed)
    drawn = (maze(rows, cols, openings=openings, rng=rng) for _ in itertools.count())
    inputs, labels = different(drawn, whole("count", count), advice=", or a larger board")
    return ExampleStream(
        inputs,
        labels,
        rows=rows,
        cols=cols,
        vocabulary=len((WALL, FLOOR, START, GOAL, WAY)),
        augment=BoardTurns(rows, cols),
    )


def _tree(rows: int, cols: int, rng: np.random.Generator) -> np.ndarray:
    """A board whose floor is a random spanning tree, by depth-first search."""
    board = np.full((rows, cols), WALL, np.int64)
    board[1, 1] = FLOOR
    walk = [(1, 1)]
    while walk:
        row, col = walk[-1]
        for index in rng.permutation(4):
            down, right = STEPS[index]
            there = row + 2 * down, col + 2 * right
            inside = 0 < there[0] < rows and 0 < there[1] < cols
            if inside and board[there] == WALL:
                board[row + down, col + right] = board[there] = FLOOR
                walk.append(there)
                break
        else:
            walk.pop()
    return board


def _only_shortest_way(board: np.ndarray, start: Cell, goal: Cell) -> list[Cell] | None:
    """The cells of the shortest path from `start` to `goal`; `None` if it is not unique."""
    distance, ways = {start: 0}, {start: 1}
    before: dict[Cell, Cell] = {}
    waiting = deque([start])
    while waiting:
        cell = waiting.popleft()
        for down, right in STEPS:
            there = cell[0] + down, cell[1] + right
            if board[there] == WALL:
                continue
            if there not in distance:
                distance[there], ways[there], before[there] = distance[cell] + 1, 0, cell
                waiting.append(there)
            if distance[there] == distance[cell] + 1:
                ways[there] += ways[cell]
    if ways[goal] != 1:
        return None
    way = [goal]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


@dataclass(frozen=True)
class BoardTurns:
    """Randomly reflects a board and its labels in both axes, and transposes a square board.

    Attributes:
        rows: rows of the board.
        cols: columns of the board.
    """

    rows: int
    cols: int

    def __call__(self, example: Examples, *, key: Key[Array, ""]) -> Examples:
        """The transformed example."""
        upside, sideways, turned = jax.random.bernoulli(key, shape=(3,))

        def change(cells: Int32[Array, " cells"]) -> Int32[Array, " cells"]:
            board = jnp.asarray(cells).reshape(self.rows, self.cols)
            board = jnp.where(upside, board[::-1], board)
            board = jnp.where(sideways, board[:, ::-1], board)
            if self.rows == self.cols:
                board = jnp.where(turned, board.T, board)
            return board.ravel()

        return Examples(change(example.inputs), change(example.labels))
