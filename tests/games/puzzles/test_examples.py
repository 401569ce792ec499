"""Streams of user-provided puzzles: what they draw, and the arguments that they refuse."""

import jax
import numpy as np
import pytest

from hackmatrix_rl.games.puzzles import Examples, ExampleStream

pytestmark = pytest.mark.search

BOARDS = np.arange(12).reshape(3, 4)


def stream(**changes):
    given = {"inputs": BOARDS, "labels": BOARDS[:, ::-1], "rows": 2, "cols": 2, "vocabulary": 12}
    return ExampleStream(**{**given, **changes})


def flipped(example, *, key):
    return Examples(example.inputs[::-1], example.labels[::-1])


def test_inputs_stay_with_their_labels():
    drawn = stream().draw(jax.random.key(0), 30)
    np.testing.assert_array_equal(drawn.inputs[:, ::-1], drawn.labels)
    assert set(np.asarray(drawn.inputs)[:, 0]) == {0, 4, 8}
    changed = stream(augment=flipped).draw(jax.random.key(0), 30)
    np.testing.assert_array_equal(changed.inputs, drawn.labels)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"inputs": BOARDS[:0], "labels": BOARDS[:0]}, "needs one puzzle or more"),
        ({"inputs": BOARDS[0]}, "needs one puzzle or more"),
        ({"labels": BOARDS[:2]}, "must both have 2 x 2 cells"),
        ({"rows": 3}, "must both have 3 x 2 cells"),
        ({"vocabulary": 11}, "more than the largest token, 11"),
        ({"vocabulary": 300}, "256 or less"),
    ],
)
def test_what_does_not_fit_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        stream(**changes)
    with pytest.raises(ValueError, match="size must be at least 1"):
        next(stream().batches(0))
