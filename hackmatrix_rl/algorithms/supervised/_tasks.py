"""The puzzles of a training by name: a training set and a test set."""

from functools import lru_cache
from typing import NamedTuple

from hackmatrix_rl.games.puzzles import BOXES, ExampleStream, mazes, sudokus
from hackmatrix_rl.system.errors import ConfigError, refusing

LARGEST_MAZE = 41
MAZE_TOKENS = 5


class Puzzles(NamedTuple):
    """The training set, and the test set; `None`: no test set."""

    train: ExampleStream
    fresh: ExampleStream | None


def check_task(task: str, size: int) -> None:
    """Raises a ConfigError if a task has no boards of a size."""
    if task == "sudoku" and size not in BOXES:
        sizes = " or ".join(", ".join(map(str, BOXES)).rsplit(", ", 1))
        raise ConfigError(f"--size {size}: --task sudoku has {sizes}.")
    if task == "maze" and not (size % 2 and 5 <= size <= LARGEST_MAZE):
        raise ConfigError(
            f"--size {size}: --task maze has odd sizes from 5 to {LARGEST_MAZE}, since walls are "
            "between cells."
        )


def tokens_of(task: str, size: int) -> tuple[int, int]:
    """Cells of a board, and the number of tokens."""
    return size * size, size + 1 if task == "sudoku" else MAZE_TOKENS


@lru_cache(maxsize=4)
def make_puzzles(
    task: str, size: int, level: str, openings: int, count: int, fresh: int, seed: int
) -> Puzzles:
    """A training set of `count` puzzles and a test set of `fresh` puzzles, all different.

    Augmentation may still turn a training puzzle into a test puzzle.
    """
    asked = f"--puzzles {count} and --eval-puzzles {fresh} of --task {task} --size {size}"
    if task == "sudoku":
        with refusing(f"{asked}, --level {level}: "):
            every = sudokus(size, count + fresh, level=level, seed=seed)
    else:
        with refusing(f"{asked}, --openings {openings}: "):
            every = mazes(size, size, count + fresh, openings=openings, seed=seed)
    train = _part(every, slice(count))
    return Puzzles(train, _part(every, slice(count, None)) if fresh else None)


def _part(stream: ExampleStream, part: slice) -> ExampleStream:
    """A slice of a stream, with its augmentation."""
    board = {"rows": stream.rows, "cols": stream.cols, "vocabulary": stream.vocabulary}
    augment = stream.augment
    return ExampleStream(stream.inputs[part], stream.labels[part], **board, augment=augment)
