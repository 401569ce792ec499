"""How the features of an observation split, so that a network can multiply them with less work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float32, PyTree, UInt32


class Columns(NamedTuple):
    """The columns of `Features.ravel()` that each part of a split has, in the part's own order."""

    static: np.ndarray
    sparse: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class FeatureSplit:
    """The features of an observation in three parts.

    Static features stay the same for many steps in a row. Sparse features are 0 in most cells.
    The others are all the rest. All functions but `show` take one observation; `seen` and
    `sparse` take a batch, too.

    Attributes:
        encode: all features, as in the environment's spec.
        seen: the integers that alone decide the static features.
        static: the static features.
        sparse: one word for each cell, which alone decides the cell's sparse features. They
            are 0 where it is 0.
        show: from the words of some cells to their sparse features.
        others: all other features.
        columns: where the parts stand. It depends on the shapes of an observation alone.
    """

    encode: Callable[[PyTree[Array]], Any]
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    static: Callable[[PyTree[Array]], Float32[Array, " static"]]
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    columns: Callable[[PyTree[Array]], Columns]
