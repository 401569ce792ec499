"""Labelled examples on the device: sampling and augmentation by a random key."""

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key, UInt8

from hackmatrix_rl.system.errors import whole


class Examples(eqx.Module):
    """Puzzles and their solutions, in row-major order.

    Attributes:
        inputs: the token of each cell of the puzzle.
        labels: the token of each cell of the solution.
    """

    inputs: Int32[Array, "*batch cells"]
    labels: Int32[Array, "*batch cells"]


@runtime_checkable
class Augmentation(Protocol):
    """A random transformation of one example that preserves the correctness of its labels."""

    def __call__(self, example: Examples, *, key: Key[Array, ""]) -> Examples:
        """The transformed example."""
        ...


class ExampleStream(eqx.Module):
    """An infinite stream of examples from a set of puzzles. Each draw depends only on its key.

        stream = sudokus(4, 1000, level="easy", seed=0)
        batch = eqx.filter_jit(stream.draw)(key, 64)

    Attributes:
        inputs: the tokens of each puzzle.
        labels: the tokens of each solution.
        rows: rows of a board.
        cols: columns of a board.
        vocabulary: number of tokens, which are 0 to `vocabulary - 1`.
        augment: transforms each drawn example; `None` for no augmentation.

    Raises:
        TypeError: `vocabulary` is not an integer.
        ValueError: there are no puzzles, the shapes do not match, or `vocabulary` is not above
            every token, or above 256.
    """

    inputs: UInt8[Array, "puzzles cells"]
    labels: UInt8[Array, "puzzles cells"]
    rows: int = eqx.field(static=True)
    cols: int = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)
    augment: Augmentation | None = eqx.field(static=True, default=None)

    def __init__(
        self,
        inputs: np.ndarray | Array,
        labels: np.ndarray | Array,
        *,
        rows: int,
        cols: int,
        vocabulary: int,
        augment: Augmentation | None = None,
    ) -> None:
        """Moves the puzzles, integers of shape `[puzzles, cells]`, to the device."""
        shapes = tuple(np.shape(inputs)), tuple(np.shape(labels))
        if len(shapes[0]) != 2 or shapes[0][0] < 1:
            raise ValueError(
                f"inputs has the shape {list(shapes[0])}; a stream needs one puzzle or more, as "
                "[puzzles, cells]"
            )
        if shapes[0] != shapes[1] or shapes[0][1] != rows * cols:
            raise ValueError(
                f"inputs {list(shapes[0])} and labels {list(shapes[1])} must both have {rows} x "
                f"{cols} cells for each puzzle"
            )
        largest = max(int(np.max(inputs)), int(np.max(labels)))
        if not largest < whole("vocabulary", vocabulary) <= 256:
            raise ValueError(
                f"vocabulary is {vocabulary}; expected more than the largest token, {largest}, and "
                "256 or less"
            )
        self.inputs = jnp.asarray(inputs, jnp.uint8)
        self.labels = jnp.asarray(labels, jnp.uint8)
        self.rows, self.cols, self.vocabulary = rows, cols, vocabulary
        self.augment = augment

    def __len__(self) -> int:
        """Number of puzzles."""
        return self.inputs.shape[0]

    def draw(self, key: Key[Array, ""], count: int) -> Examples:
        """`count` examples, sampled with replacement and transformed by `augment`."""
        which_key, change_key = jax.random.split(key)
        which = jax.random.randint(which_key, (count,), 0, len(self), jnp.int32)
        drawn = Examples(self.inputs[which].astype(jnp.int32), self.labels[which].astype(jnp.int32))
        if self.augment is None:
            return drawn
        augment: Callable[..., Examples] = self.augment
        keys = jax.random.split(change_key, count)
        return jax.vmap(lambda example, key: augment(example, key=key))(drawn, keys)

    def batches(self, size: int) -> Iterator[Examples]:
        """All puzzles in order, without augmentation. The last batch may be smaller.

        Raises:
            TypeError: `size` is not an integer.
            ValueError: `size` is less than 1.
        """
        for start in range(0, len(self), whole("size", size)):
            part = slice(start, start + size)
            yield Examples(self.inputs[part].astype(jnp.int32), self.labels[part].astype(jnp.int32))


ATTEMPTS = 200
"""Consecutive puzzles or boards without success before the search fails."""


def different(
    drawn: Iterator[tuple[np.ndarray, np.ndarray]], count: int, *, advice: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` distinct puzzles of a stream, and their solutions."""
    found: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    misses = 0
    while len(found) < count:
        puzzle, answer = next(drawn)
        misses = misses + 1 if puzzle.tobytes() in found else 0
        found[puzzle.tobytes()] = puzzle.ravel(), answer.ravel()
        if misses == ATTEMPTS:
            raise ValueError(
                f"count is {count}, but after {len(found)} puzzles the next {ATTEMPTS} were "
                f"repetitions; use a smaller count{advice}"
            )
    inputs, labels = (np.stack([pair[side] for pair in found.values()]) for side in (0, 1))
    return inputs, labels
