"""What a network can know of single actions."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float32, Int32, PyTree


@dataclass(frozen=True)
class ActionFeatures:
    """Features of single actions, for networks with an embedding of each action.

    Both functions take one observation. Together their results may cover all actions or a part.

    Attributes:
        cells: the cell of the board that each of the first actions is about (`row * columns +
            column`); -1 for a cell off the board.
        numbers: the numbers of each of the last actions.
    """

    cells: Callable[[PyTree[Array]], Int32[Array, " first"]]
    numbers: Callable[[PyTree[Array]], Float32[Array, "last numbers"]]
