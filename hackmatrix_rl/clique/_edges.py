"""The numbers of the edges, which are the actions."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int32


@lru_cache
def edges(vertices: int) -> Int32[np.ndarray, "num_edges 2"]:
    """The two vertices of each edge, the smaller one first; edges in lexicographic order.

    Args:
        vertices: number of vertices.
    """
    return np.stack(np.triu_indices(vertices, 1), axis=1).astype(np.int32)


@lru_cache
def edge_numbers(vertices: int) -> Int32[np.ndarray, "vertices vertices"]:
    """The number of the edge between two vertices; -1 on the diagonal.

    Args:
        vertices: number of vertices.
    """
    numbers = np.full((vertices, vertices), -1, np.int32)
    for number, (one, other) in enumerate(edges(vertices)):
        numbers[one, other] = numbers[other, one] = number
    return numbers
