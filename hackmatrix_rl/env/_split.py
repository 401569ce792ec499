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
    """Static features stay for many steps, sparse ones are 0 in most cells, others are the rest.

    Attributes:
        encode: from one observation to all features, as in the environment's spec.
        seen: the integers that determine the static features, of one observation or a batch.
        static: from one observation to its static features.
        sparse: a word for each cell, which determines its sparse features; for a batch, too.
        show: from the words of some cells to their sparse features; those of a word 0 are 0.
        others: from one observation to its other features.
        columns: the columns of each part, by the shapes of an observation.
    """

    encode: Callable[[PyTree[Array]], Any]
    seen: Callable[[PyTree[Array]], PyTree[Array]]
    static: Callable[[PyTree[Array]], Float32[Array, " static"]]
    sparse: Callable[[PyTree[Array]], UInt32[Array, "*batch cells"]]
    show: Callable[[UInt32[Array, " some"]], Float32[Array, "some channels"]]
    others: Callable[[PyTree[Array]], Float32[Array, " others"]]
    columns: Callable[[PyTree[Array]], Columns]
