"""Optional structure of an environment's features: by action, and by how often they change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree, UInt32


@dataclass(frozen=True)
class ActionFeatures:
    """Features of single actions, for networks that embed each action.

    Both functions take one observation. `cells` covers the first actions and `numbers` the last
    ones. They need not cover all actions.
    """

    #: The board cell of each of the first actions (`row * columns + column`); -1 off the board.
    cells: Callable[[PyTree[Array]], Int32[Array, " first"]]
    #: The features of each of the last actions.
    numbers: Callable[[PyTree[Array]], Float32[Array, "last numbers"]]


class Columns(NamedTuple):
    """For each part of a split, the indices of its features in `Features.ravel()`."""

    static: np.ndarray
    sparse: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class FeatureSplit:
    """A split of the features into static, sparse and other ones.

    Static features rarely change. Sparse ones are 0 in most cells.
    """

    #: All features of one observation; the `encode` of the environment's spec.
    encode: Callable[[PyTree[Array]], Any]
    #: The integers that determine the static features. Works with a batch, too.
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    #: The static features of one observation.
    static: Callable[[PyTree[Array]], Float32[Array, " static"]]
    #: A word per cell, which determines its sparse features. Works with a batch, too.
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    #: The sparse features of some cells by their words; those of a word 0 are 0.
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    #: The other features of one observation.
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    #: The columns of each part, from the shapes of an observation.
    columns: Callable[[PyTree[Array]], Columns]
