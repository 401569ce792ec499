"""Mazes: the way is the shortest and the only one, by a search that shares nothing with theirs."""

import equinox as eqx
import jax
import numpy as np
import pytest

from hackmatrix_rl.games.puzzles import maze, mazes
from hackmatrix_rl.games.puzzles._mazes import FLOOR, GOAL, START, WALL, WAY

pytestmark = pytest.mark.search


def distance(board):
    """Steps from the start to the goal, by a flood; `None` if it does not get there."""
    reached = board == START
    for steps in range(board.size):
        if reached[board == GOAL].any():
            return steps
        wide = np.pad(reached, 1)
        spread = wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]
        reached = (reached | spread) & (board != WALL)
    return None


def check(board, solved):
    assert (np.sort(board[board >= START]) == [START, GOAL]).all()
    assert ((board == WALL) == (solved == WALL)).all()
    assert (board[[0, -1]] == WALL).all()
    assert (board[:, [0, -1]] == WALL).all()
    way = np.argwhere(solved == WAY)
    changed = (solved != board) == (solved == WAY)
    assert changed.all()
    shortest = distance(board)
    assert shortest == len(way) + 1
    # Without a cell of it, every way is longer: there is no other one.
    for cell in way:
        closed = board.copy()
        closed[tuple(cell)] = WALL
        longer = distance(closed)
        assert longer is None or longer > shortest


@pytest.mark.parametrize(("rows", "cols", "openings"), [(5, 5, 0), (9, 13, 0), (11, 9, 6)])
def test_the_way_is_the_only_shortest_one(rows, cols, openings):
    rng = np.random.default_rng(0)
    lengths = set()
    for _ in range(8):
        board, solved = maze(rows, cols, openings=openings, rng=rng)
        assert board.shape == (rows, cols)
        check(board, solved)
        # A tree over the cells has one passage less than cells.
        cells = (rows // 2) * (cols // 2)
        assert (board != WALL).sum() == 2 * cells - 1 + openings
        lengths.add(int((solved == WAY).sum()))
    assert len(lengths) > 2


@pytest.mark.parametrize(("rows", "cols", "looks"), [(7, 7, 8), (7, 9, 4)])
def test_turned_mazes_are_right_too(rows, cols, looks):
    stream = mazes(rows, cols, 1, openings=1, seed=3)
    drawn = eqx.filter_jit(stream.draw)(jax.random.key(0), 60)
    inputs, labels = (
        np.asarray(each).reshape(60, rows, cols) for each in (drawn.inputs, drawn.labels)
    )
    assert len({each.tobytes() for each in inputs}) == looks
    for board, solved in zip(inputs[:8], labels[:8], strict=True):
        check(board, solved)


def test_a_stream_draws_by_its_key_alone_and_gives_all_puzzles_once():
    stream = mazes(5, 7, 5, seed=0)
    assert (stream.vocabulary, stream.rows, stream.cols, len(stream)) == (5, 5, 7, 5)
    draw = eqx.filter_jit(stream.draw)
    one, again, other = (draw(jax.random.key(seed), 16) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.inputs, again.inputs)
    assert (np.asarray(one.inputs) != np.asarray(other.inputs)).any()
    sizes = [batch.inputs.shape[0] for batch in stream.batches(2)]
    assert sizes == [2, 2, 1]
    whole = np.concatenate([batch.labels for batch in stream.batches(2)])
    np.testing.assert_array_equal(whole, stream.labels)
    assert set(np.unique(stream.inputs)) <= {WALL, FLOOR, START, GOAL}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rows": 6}, "rows must be odd"),
        ({"cols": 3}, "cols must be at least 5"),
        ({"openings": -1}, "openings must be at least 0"),
        ({"openings": 5}, "at most 1, the inner walls"),
        ({"count": 0}, "count must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        mazes(**{"rows": 5, "cols": 5, "count": 1, "seed": 0, **changes})


def test_a_stream_has_different_mazes_for_as_long_as_there_are_any():
    # Of 5 x 5 there are two walks round the wall in the middle, and seven cells for two ends.
    stream = mazes(5, 5, 2 * 7 * 6, seed=0)
    assert len(np.unique(np.asarray(stream.inputs), axis=0)) == 2 * 7 * 6
    with pytest.raises(ValueError, match="repetitions; use a smaller count, or a larger board"):
        mazes(5, 5, 2 * 7 * 6 + 1, seed=0)
