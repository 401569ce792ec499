"""Optional facts about an environment's features: per action, and how they split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree, UInt32


@dataclass(frozen=True)
class ActionFeatures:
    """Features of single actions, for networks with an embedding of each action.

    Both functions take one observation. Together their results may cover all actions or a part.
    """

    #: The cell of the board that each of the first actions is about (`row * columns + column`); -1
    #: for a cell off the board.
    cells: Callable[[PyTree[Array]], Int32[Array, " first"]]
    #: The numbers of each of the last actions.
    numbers: Callable[[PyTree[Array]], Float32[Array, "last numbers"]]


class Columns(NamedTuple):
    """The columns of `Features.ravel()` of each part of a split, in the order of the part."""

    static: np.ndarray
    sparse: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class FeatureSplit:
    """Static features stay for many steps, sparse ones are 0 in most cells, others are the rest."""

    #: From one observation to all features, as in the environment's spec.
    encode: Callable[[PyTree[Array]], Any]
    #: The integers that determine the static features, of one observation or a batch.
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    #: From one observation to its static features.
    static: Callable[[PyTree[Array]], Float32[Array, " static"]]
    #: A word for each cell, which determines its sparse features; for a batch, too.
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    #: From the words of some cells to their sparse features; a word 0 has features 0.
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    #: From one observation to its other features.
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    #: The columns of each part, by the shapes of an observation.
    columns: Callable[[PyTree[Array]], Columns]
