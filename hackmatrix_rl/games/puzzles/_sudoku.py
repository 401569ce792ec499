"""Sudoku of 4 x 4, 6 x 6 and 9 x 9: a generator, a solver, and symmetries."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.games.puzzles._examples import ATTEMPTS, Examples, ExampleStream, different
from hackmatrix_rl.games.puzzles._levels import LEVELS
from hackmatrix_rl.system.errors import whole

BOXES: Mapping[int, tuple[int, int]] = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Rows and columns of a box, by the size of the board."""
SIDE_BY_SIDE = 512
"""Boards generated in one batch: NumPy takes hardly longer for them than for one."""

Board = np.ndarray
"""Integers `[size, size]`: digits from 1, and 0 for an empty cell."""
Cells = np.ndarray
"""Integers `[cells]` or `[boards, cells]`: one or more boards in row-major order."""


def sudoku(
    size: int, *, level: str = "easy", blanks: int | None = None, rng: np.random.Generator
) -> tuple[Board, Board]:
    """A random puzzle with a unique solution, and the solution.

    It goes through the cells of a full board in random order, and empties each cell whose removal
    keeps the solution unique (for `easy`: keeps the puzzle solvable by singles).

    Args:
        size: 4, 6 or 9.
        level: one of `LEVELS`. `easy` is solved by singles alone (see `difficulty`). `hard` needs a
            guess; many boards are rejected to find one.
        blanks: the most cells to empty; `None`: as many as the level allows.
        rng: source of randomness.

    Raises:
        TypeError: `blanks` is not an integer.
        ValueError: the size or level is unknown, there are more blanks than cells, or no puzzle of
            the level was found.
    """
    puzzle, answer = next(_drawn(size, level, blanks, rng, at_once=1))
    return puzzle.reshape(size, size), answer.reshape(size, size)


def sudokus(
    size: int, count: int, *, level: str = "easy", blanks: int | None = None, seed: int
) -> ExampleStream:
    """A stream of `count` distinct puzzles, with `SudokuSymmetries` as augmentation.

    Token 0 is an empty cell, and the other tokens are the digits. All cells are labelled.

    Args:
        size: see `sudoku`.
        count: number of puzzles.
        level: see `sudoku`.
        blanks: see `sudoku`.
        seed: seed of all random numbers.

    Raises:
        TypeError: see `sudoku`, or `count` is not an integer.
        ValueError: see `sudoku`, or too few distinct puzzles were found.
    """
    count = whole("count", count)
    drawn = _drawn(
        size, level, blanks, np.random.default_rng(seed), at_once=min(count, SIDE_BY_SIDE)
    )
    advice = "" if blanks is None else ", or more blanks"
    inputs, labels = different(drawn, count, advice=advice)
    board = {"rows": size, "cols": size, "vocabulary": size + 1}
    return ExampleStream(inputs, labels, **board, augment=SudokuSymmetries(size))


def _drawn(
    size: int, level: str, blanks: int | None, rng: np.random.Generator, *, at_once: int
) -> Iterator[tuple[Cells, Cells]]:
    """An infinite stream of puzzles and solutions, generated `at_once` boards at a time."""
    check_size(size)
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}; choose one of {', '.join(LEVELS)}")
    most = size * size if blanks is None else whole("blanks", blanks)
    if most > size * size:
        raise ValueError(f"blanks must be at most the {size * size} cells of the board, not {most}")
    empty = np.zeros((size, size), np.int64)
    misses = 0
    while misses < ATTEMPTS:
        answers = np.stack([next(_search(empty, rng)).ravel() for _ in range(at_once)])
        puzzles = _emptied(answers, most, rng, singles_only=level == "easy")
        hard = (_by_singles(puzzles) == 0).any(axis=1)
        fits = hard if level == "hard" else np.ones_like(hard)
        misses = 0 if fits.any() else misses + at_once
        yield from zip(puzzles[fits], answers[fits], strict=True)
    fewer, more = ("", "") if blanks is None else (f" with {blanks} blanks", ", or more blanks")
    raise ValueError(
        f"no hard puzzle of size {size}{fewer} in {ATTEMPTS} boards; use level any, or a larger "
        f"size{more}"
    )


def check_size(size: int) -> None:
    """Raises a ValueError if there is no Sudoku of this size."""
    if size not in BOXES:
        raise ValueError(f"size must be {', '.join(map(str, BOXES))}, not {size}")


def solutions(board: Board, limit: int = 2) -> list[Board]:
    """At most `limit` solutions of a puzzle; none if its digits contradict each other.

    Raises:
        ValueError: the board is not `[size, size]` of a known size, or has other digits.
    """
    _check_board(board)
    return [answer for answer, _ in zip(_search(board), range(limit), strict=False)]


def difficulty(board: Board) -> int:
    """The number of cells that singles leave empty: 0 for an easy puzzle.

    A single is the only digit that its cell can hold (naked single), or a digit with only one
    possible cell in a row, column or box (hidden single).

    Raises:
        ValueError: see `solutions`.
    """
    _check_board(board)
    return int((_by_singles(np.reshape(board, (1, -1))) == 0).sum())


def _check_board(board: Board) -> None:
    shape = np.shape(board)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"a board has as many rows as columns, not the shape {list(shape)}")
    check_size(shape[0])
    if not ((np.asarray(board) >= 0) & (np.asarray(board) <= shape[0])).all():
        raise ValueError(f"a board holds the digits 1 to {shape[0]}, and 0 for an empty cell")


def _box(size: int, row: int, col: int) -> int:
    rows, cols = BOXES[size]
    return row // rows * (size // cols) + col // cols


def _search(board: Board, rng: np.random.Generator | None = None) -> Iterator[Board]:
    """All solutions, by depth-first search. `rng` shuffles the order of the digits."""
    size = board.shape[0]
    cells = [(row, col, _box(size, row, col)) for row in range(size) for col in range(size)]
    digits = [int(digit) for digit in board.ravel()]
    every = (1 << size) - 1  # a bit for each digit
    # The digits that are missing in each row, column and box.
    rows, cols, boxes = [every] * size, [every] * size, [every] * size
    for (row, col, box), digit in zip(cells, digits, strict=True):
        bit = 1 << digit >> 1
        if digit and not rows[row] & cols[col] & boxes[box] & bit:
            return
        rows[row] &= ~bit
        cols[col] &= ~bit
        boxes[box] &= ~bit

    def answers() -> Iterator[Board]:
        fewest, where, open_digits = size + 1, -1, 0
        for index, (row, col, box) in enumerate(cells):
            if digits[index] == 0:
                free = rows[row] & cols[col] & boxes[box]
                if free.bit_count() < fewest:
                    fewest, where, open_digits = free.bit_count(), index, free
                    if fewest <= 1:
                        break
        if where < 0:
            yield np.array(digits, np.int64).reshape(size, size)
            return
        row, col, box = cells[where]
        order = range(size) if rng is None else rng.permutation(size)
        for digit in order:
            bit = 1 << int(digit)
            if open_digits & bit:
                digits[where] = int(digit) + 1
                rows[row], cols[col], boxes[box] = (
                    rows[row] ^ bit,
                    cols[col] ^ bit,
                    boxes[box] ^ bit,
                )
                yield from answers()
                digits[where] = 0
                rows[row], cols[col], boxes[box] = (
                    rows[row] ^ bit,
                    cols[col] ^ bit,
                    boxes[box] ^ bit,
                )

    yield from answers()


@cache
def _units(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The cells of each unit `[units, size]`, and the row, column and box of each cell."""
    rows, cols = np.divmod(np.arange(size * size), size)
    boxes = np.array([_box(size, *divmod(cell, size)) for cell in range(size * size)])
    of_cell = np.stack([rows, size + cols, 2 * size + boxes], axis=1)
    cells = [np.flatnonzero((of_cell == unit).any(axis=1)) for unit in range(3 * size)]
    return np.stack(cells), of_cell


def _by_singles(boards: Cells, *, until: np.ndarray | None = None) -> Cells:
    """Fills in all singles. A board in which they lead to a contradiction is returned as it was.

    With `until`, a cell for each board, a board is done as soon as this cell has a digit.
    """
    count, cells = boards.shape
    size = math.isqrt(cells)
    units, of_cell = _units(size)

    # A digit is a bit: [0 1 2 3] -> [0 1 2 4]
    digits = np.zeros(1 << size, np.int64)
    digits[1 << np.arange(size)] = np.arange(1, size + 1)
    given = (1 << np.asarray(boards, np.int16)) >> 1
    found = given.copy()

    left = np.arange(count)
    while len(left):
        now = found[left]
        placed, doubled = _once_and_again(now[:, units])
        wrong = doubled.any(axis=1)
        found[left[wrong]] = given[left[wrong]]

        taken = np.bitwise_or.reduce(placed[:, of_cell], axis=2)
        free = np.where(now == 0, ((1 << size) - 1) & ~taken, 0).astype(np.int16)
        somewhere, again = _once_and_again(free[:, units])
        only_cell = free & np.bitwise_or.reduce((somewhere & ~again)[:, of_cell], axis=2)
        single = np.where(free & (free - 1) == 0, free, only_cell)
        single &= -single  # the lowest digit, if a contradiction leaves several

        goes_on = single.any(axis=1) & ~wrong
        left, single = left[goes_on], single[goes_on]
        found[left] |= single
        if until is not None:
            left = left[found[left, until[left]] == 0]
    return digits[found]


def _once_and_again(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bits set along the last axis, and those set more than once: [1 3] -> (3, 1)."""
    once = again = np.zeros(bits.shape[:-1], bits.dtype)
    for each in np.moveaxis(bits, -1, 0):
        once, again = once | each, again | (once & each)
    return once, again


def _emptied(answers: Cells, most: int, rng: np.random.Generator, *, singles_only: bool) -> Cells:
    """Empties cells in random order, while the puzzles keep their level (see `sudoku`)."""
    size = math.isqrt(answers.shape[1])
    puzzles = answers.copy()
    boards = np.arange(len(puzzles))
    left = np.full(len(puzzles), most)
    for cell in rng.permuted(np.broadcast_to(np.arange(size * size), puzzles.shape), axis=1).T:
        puzzles[boards, cell] = 0
        # If singles restore the digit, they then solve the puzzle as before.
        ok = _by_singles(puzzles, until=cell)[boards, cell] > 0
        if not singles_only:
            for board in np.flatnonzero(~ok):
                ok[board] = len(solutions(puzzles[board].reshape(size, size))) == 1
        ok &= left > 0
        left -= ok
        puzzles[boards, cell] = np.where(ok, 0, answers[boards, cell])
        if not left.any():
            break
    return puzzles


@dataclass(frozen=True)
class SudokuSymmetries:
    """Applies a random symmetry of Sudoku to a puzzle and its solution.

    It permutes digits, rows within a band, bands, columns within a stack, and stacks, and
    transposes boards with square boxes.

    Attributes:
        size: size of the board.

    Raises:
        ValueError: there is no Sudoku of this size.
    """

    size: int

    def __post_init__(self) -> None:
        check_size(self.size)

    def __call__(self, example: Examples, *, key: Key[Array, ""]) -> Examples:
        """The transformed example."""
        digit_key, row_key, col_key, turn_key = jax.random.split(key, 4)
        box_rows, box_cols = BOXES[self.size]
        digits = 1 + jax.random.permutation(digit_key, self.size)
        names = jnp.concatenate([jnp.zeros(1, digits.dtype), digits]).astype(jnp.int32)
        rows = _within_bands(self.size, box_rows, row_key)
        cols = _within_bands(self.size, box_cols, col_key)
        turned = jax.random.bernoulli(turn_key) & (box_rows == box_cols)

        def change(cells: Int32[Array, " cells"]) -> Int32[Array, " cells"]:
            board = jnp.asarray(cells).reshape(self.size, self.size)[rows][:, cols]
            return names[jnp.where(turned, board.T, board)].ravel()

        return Examples(change(example.inputs), change(example.labels))


def _within_bands(size: int, band: int, key: Key[Array, ""]) -> Int32[Array, " size"]:
    """A permutation of rows that keeps the rows of each band together."""
    band_key, row_key = jax.random.split(key)
    bands = jax.random.permutation(band_key, size // band)
    rows = jax.vmap(lambda key: jax.random.permutation(key, band))(
        jax.random.split(row_key, size // band)
    )
    return (bands[:, None] * band + rows).ravel().astype(jnp.int32)
