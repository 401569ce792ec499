"""The state of a clique game."""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.clique._config import CliqueConfig
from hackmatrix_rl.clique._edges import edges

FIRST, SECOND, NOBODY = 0, 1, -1
"""The players by number, and who has won while nobody has."""


class State(eqx.Module):
    """One clique game.

    Attributes:
        adjacency: for each player and vertex one word. Its bit v is set if the player has coloured
            the edge from the vertex to v.
        moves: number of edges that are coloured.
        over: whether the game is over.
        winner: `FIRST`, `SECOND`, or `NOBODY` in a draw and before the end.
    """

    adjacency: UInt32[Array, "*batch 2 vertices"]
    moves: Int32[Array, "*batch"]
    over: Bool[Array, "*batch"]
    winner: Int32[Array, "*batch"]


def mover(state: State) -> Int32[Array, "*batch"]:
    """The player whose move it is: `FIRST` or `SECOND`."""
    return state.moves % 2


def colours(config: CliqueConfig, state: State) -> Bool[Array, "2 num_edges"]:
    """The edges that each player has coloured.

    Args:
        config: sizes of the game.
        state: one game.
    """
    ends = edges(config.vertices)
    words = state.adjacency[:, ends[:, 0]]
    return ((words >> ends[None, :, 1].astype(np.uint32)) & 1) != 0


def from_edges(config: CliqueConfig, first: Iterable[int], second: Iterable[int]) -> State:
    """The position with these edges, before the end of the game. It checks no rule.

    Args:
        config: sizes of the game.
        first: numbers of the edges of the first player.
        second: numbers of the edges of the second player.
    """
    words = np.zeros((2, config.vertices), np.uint32)
    moves = 0
    for player, numbers in enumerate((first, second)):
        for one, other in edges(config.vertices)[list(numbers)]:
            words[player, one] |= np.uint32(1 << int(other))
            words[player, other] |= np.uint32(1 << int(one))
            moves += 1
    return State(
        adjacency=jnp.asarray(words),
        moves=jnp.int32(moves),
        over=jnp.bool_(False),
        winner=jnp.int32(NOBODY),
    )
