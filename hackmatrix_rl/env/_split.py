"""A split of the features of an observation, with which a dense first layer saves work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float32, PyTree, UInt32


class Columns(NamedTuple):
    """The columns of `Features.ravel()` of each part of a split, in the order of the part."""

    static: np.ndarray
    sparse: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class FeatureSplit:
    """The features of an observation in three parts.

    Static features stay the same for many steps in a row. Sparse features are 0 in most cells.
    The others are all the rest. All functions except `show` take one observation. `seen` and
    `sparse` also take a batch.

    Attributes:
        encode: the function that gives all features, as in the environment's spec.
        seen: the integers that determine the static features.
        static: the static features.
        sparse: one word for each cell, which determines the cell's sparse features. The features
            of a word 0 are 0.
        show: from the words of some cells to their sparse features.
        others: all other features.
        columns: the columns of each part. They depend only on the shapes of an observation.
    """

    encode: Callable[[PyTree[Array]], Any]
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    static: Callable[[PyTree[Array]], Float32[Array, " static"]]
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    columns: Callable[[PyTree[Array]], Columns]
