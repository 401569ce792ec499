"""Sudoku: the generator against a solver that shares nothing with it, and the symmetries."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.games.puzzles import (
    BOXES,
    Examples,
    SudokuSymmetries,
    difficulty,
    solutions,
    sudoku,
    sudokus,
)
from hackmatrix_rl.games.puzzles._sudoku import _by_singles, _within_bands

pytestmark = pytest.mark.search

WIKIPEDIA = """
53..7.... 6..195... .98....6. 8...6...3 4..8.3..1 7...2...6 .6....28. ...419..5 ....8..79
"""
ANSWER = """
534678912 672195348 198342567 859761423 426853791 713924856 961537284 287419635 345286179
"""
HARD = """
1....7.9. .3..2...8 ..96..5.. ..53..9.. .1..8...2 6....4... 3......1. .4......7 ..7...3..
"""


def board(text):
    return np.array([[int(each) for each in row.replace(".", "0")] for row in text.split()])


def is_right(found):
    """Whether each row, column and box has all digits."""
    size = len(found)
    high, wide = BOXES[size]
    units = [*found, *found.T]
    for row, col in itertools.product(range(0, size, high), range(0, size, wide)):
        units.append(found[row : row + high, col : col + wide].ravel())
    return all(sorted(unit) == list(range(1, size + 1)) for unit in units)


def answers(puzzle):
    """All answers, row by row: each row is a permutation of the digits."""
    size = len(puzzle)
    high, wide = BOXES[size]
    rows = []
    for given in puzzle:
        open_cells = np.flatnonzero(given == 0)
        missing = [digit for digit in range(1, size + 1) if digit not in given]
        rows.append(np.tile(given, (math.factorial(len(missing)), 1)))
        if len(missing) == len(open_cells):
            rows[-1][:, open_cells] = list(itertools.permutations(missing))
        else:  # a digit stands twice in the row
            rows[-1] = rows[-1][:0]

    def fits(above, row):
        if any(digit == other[col] for other in above for col, digit in enumerate(row)):
            return False
        band = above[len(above) - len(above) % high :]
        boxes = [{row[col] for col in range(at, at + wide)} for at in range(0, size, wide)]
        return not any(
            boxes[col // wide] & {digit} for other in band for col, digit in enumerate(other)
        )

    def fill(above):
        if len(above) == size:
            yield np.array(above)
            return
        for row in rows[len(above)]:
            if fits(above, row):
                yield from fill([*above, row])

    return list(fill([]))


@pytest.mark.parametrize(
    ("size", "level"),
    [
        (4, "easy"),
        (4, "any"),
        (6, "easy"),
        (6, "any"),
        pytest.param(6, "hard", marks=pytest.mark.nightly),
    ],
)
def test_a_puzzle_has_one_answer_by_brute_force(size, level):
    rng = np.random.default_rng(0)
    for _ in range(3):
        puzzle, answer = sudoku(size, level=level, rng=rng)
        (found,) = answers(puzzle)
        np.testing.assert_array_equal(found, answer)
        assert is_right(answer)
        assert (difficulty(puzzle) > 0) == (level == "hard")


def test_a_puzzle_of_nine_has_one_answer_by_brute_force():
    # Half of the cells are given, so that whole rows can be tried.
    puzzle, answer = sudoku(9, blanks=36, rng=np.random.default_rng(1))
    assert (puzzle == 0).sum() == 36
    (found,) = answers(puzzle)
    np.testing.assert_array_equal(found, answer)


@pytest.mark.parametrize("level", ["easy", "any"])
def test_puzzles_that_are_made_side_by_side_have_one_answer_by_brute_force(level):
    stream = sudokus(4, 30, level=level, seed=1)
    for inputs, labels in zip(np.asarray(stream.inputs), np.asarray(stream.labels), strict=True):
        (found,) = answers(inputs.reshape(4, 4))
        np.testing.assert_array_equal(found.ravel(), labels)
        puzzle = inputs.reshape(4, 4).astype(int)
        assert difficulty(puzzle) == 0  # so small, none needs a guess
        for cell in np.argwhere(puzzle):
            fewer = puzzle.copy()
            fewer[tuple(cell)] = 0
            assert difficulty(fewer) > 0, "another cell could be emptied"


def test_singles_of_a_board_do_not_depend_on_the_boards_beside_it():
    easy, hard = board(WIKIPEDIA).ravel(), board(HARD).ravel()
    # Two digits of a row, of a column and of a box are the same: nothing is added.
    wrong = np.zeros((3, 81), int)
    wrong[0, [0, 8]] = wrong[1, [0, 72]] = wrong[2, [0, 10]] = 1
    wrong[:, 30:33] = [2, 3, 4]
    boards = np.stack([wrong[0], easy, hard, *wrong[1:]])
    found = _by_singles(boards)
    np.testing.assert_array_equal(found[1], board(ANSWER).ravel())
    np.testing.assert_array_equal(found[[0, 3, 4]], wrong)
    np.testing.assert_array_equal(found[2], _by_singles(hard[None])[0])
    # Both open cells of the first row must be 4: that contradicts the board, which stays as it is.
    both = np.array([[1, 2, 0, 0, 0, 0, 3, 0] + 8 * [0]])
    np.testing.assert_array_equal(_by_singles(both), both)
    early = _by_singles(boards, until=np.full(5, int(np.flatnonzero(easy == 0)[0])))
    assert 0 < (early[1] == 0).sum() < (easy == 0).sum()
    np.testing.assert_array_equal(early[1][early[1] > 0], found[1][early[1] > 0])


def test_the_solver_finds_every_answer():
    assert len(solutions(np.zeros((4, 4), int), limit=1000)) == 288  # a known number
    (found,) = solutions(board(WIKIPEDIA))
    np.testing.assert_array_equal(found, board(ANSWER))
    twice = np.zeros((4, 4), int)
    twice[0, 0] = twice[1, 1] = 1
    assert solutions(twice) == []


@pytest.mark.parametrize("size", [4, pytest.param(6, marks=pytest.mark.nightly)])
def test_the_solver_counts_as_brute_force_does(size):
    rng = np.random.default_rng(2)
    counts = set()
    for _ in range(4):
        puzzle, _ = sudoku(size, level="any", rng=rng)
        given = np.argwhere(puzzle)
        puzzle[tuple(given[rng.integers(len(given))])] = rng.integers(size + 1)
        found = answers(puzzle)
        assert len(solutions(puzzle, limit=10_000)) == len(found)
        counts.add(min(len(found), 2))
    assert len(counts) > 1


def test_only_a_hard_puzzle_leaves_cells_to_singles():
    assert difficulty(board(WIKIPEDIA)) == 0
    assert difficulty(board(HARD)) > 40
    assert len(solutions(board(HARD))) == 1
    assert difficulty(np.zeros((4, 4), int)) == 16


def test_no_cell_more_can_be_emptied():
    puzzle, _ = sudoku(6, level="any", rng=np.random.default_rng(3))
    for cell in np.argwhere(puzzle):
        fewer = puzzle.copy()
        fewer[tuple(cell)] = 0
        assert len(solutions(fewer)) == 2


@pytest.mark.parametrize("size", [4, 6, pytest.param(9, marks=pytest.mark.nightly)])
def test_symmetries_keep_an_answer_right(size):
    stream = sudokus(size, 2, seed=4)
    drawn = eqx.filter_jit(stream.draw)(jax.random.key(0), 40)
    inputs, labels = (
        np.asarray(each).reshape(40, size, size) for each in (drawn.inputs, drawn.labels)
    )
    assert len({each.tobytes() for each in labels}) > 25
    for puzzle, answer in zip(inputs, labels, strict=True):
        assert is_right(answer)
        assert ((puzzle == 0) | (puzzle == answer)).all()
        assert (puzzle == 0).sum() in {int((each == 0).sum()) for each in stream.inputs}
    for puzzle, answer in zip(inputs[:5], labels[:5], strict=True):
        (found,) = solutions(puzzle)
        np.testing.assert_array_equal(found, answer)


@pytest.mark.parametrize("size", BOXES)
def test_all_symmetries_occur(size):
    marked = np.zeros((size, size), np.int32)
    marked[0] = np.arange(1, size + 1)
    example = Examples(*2 * [jnp.asarray(marked.ravel(), jnp.int32)])
    keys = jax.random.split(jax.random.key(1), 200)
    change = SudokuSymmetries(size)
    found = np.asarray(jax.jit(jax.vmap(lambda key: change(example, key=key).inputs))(keys))
    boards = (found > 0).reshape(-1, size, size)
    rows, cols = boards.all(axis=2), boards.all(axis=1)
    square = BOXES[size][0] == BOXES[size][1]
    assert rows.any(axis=0).all()
    assert cols.any(axis=0).all() == cols.any() == square
    assert (rows.sum(axis=1) + cols.sum(axis=1) == 1).all()


def test_rows_move_within_bands_and_bands_as_a_whole():
    keys = jax.random.split(jax.random.key(0), 800)
    found = np.asarray(jax.vmap(lambda key: _within_bands(6, 2, key))(keys))
    assert len({tuple(each) for each in found}) == 6 * 2**3
    bands = np.sort(found.reshape(-1, 3, 2), axis=2)
    assert (bands[:, :, 1] - bands[:, :, 0] == 1).all()
    assert (bands[:, :, 0] % 2 == 0).all()


def test_a_stream_has_different_puzzles_and_the_seed_decides():
    stream, again, other = (sudokus(4, 20, blanks=8, seed=seed) for seed in (0, 0, 1))
    assert len({np.asarray(each).tobytes() for each in stream.inputs}) == len(stream) == 20
    assert (np.asarray(stream.inputs) == 0).sum(axis=1).tolist() == [8] * 20
    np.testing.assert_array_equal(stream.inputs, again.inputs)
    assert (np.asarray(stream.inputs) != np.asarray(other.inputs)).any()
    assert (stream.vocabulary, stream.rows, stream.cols) == (5, 4, 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rng: sudoku(5, rng=rng), "size must be 4, 6, 9, not 5"),
        (lambda rng: sudoku(4, level="mild", rng=rng), "choose one of easy, any, hard"),
        (lambda rng: sudoku(4, blanks=17, rng=rng), "at most the 16 cells"),
        (lambda rng: sudoku(4, blanks=0, rng=rng), "blanks must be at least 1"),
        (lambda rng: sudoku(4, level="hard", rng=rng), "no hard puzzle of size 4 .* level any"),
        (lambda rng: sudokus(4, 0, seed=0), "count must be at least 1"),
        (lambda rng: sudokus(4, 10_000, blanks=1, seed=0), "repetitions; use a smaller count"),
        (lambda rng: solutions(np.zeros((4, 5))), "as many rows as columns"),
        (lambda rng: solutions(np.full((4, 4), 5)), "digits 1 to 4"),
        (lambda rng: SudokuSymmetries(8), "size must be 4, 6, 9"),
    ],
)
def test_what_cannot_be_is_refused(call, says, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.games.puzzles._sudoku.ATTEMPTS", 1)
    with pytest.raises(ValueError, match=says):
        call(np.random.default_rng(0))
