"""The clique game: its edges, its state, and a move."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt32

from hackmatrix_rl.games.clique._config import CliqueConfig
from hackmatrix_rl.system.batching import at_place, has_any, select
from hackmatrix_rl.system.errors import as_action


@lru_cache
def edges(vertices: int) -> Int32[np.ndarray, "num_edges 2"]:
    """The two vertices of each edge, in lexicographic order: (0, 1), (0, 2), ..., (1, 2), ..."""
    return np.stack(np.triu_indices(vertices, 1), axis=1).astype(np.int32)


@lru_cache
def edge_numbers(vertices: int) -> Int32[np.ndarray, "vertices vertices"]:
    """The number of the edge between two vertices; -1 on the diagonal."""
    numbers = np.full((vertices, vertices), -1, np.int32)
    for number, (one, other) in enumerate(edges(vertices)):
        numbers[one, other] = numbers[other, one] = number
    return numbers


FIRST, SECOND, NOBODY = 0, 1, -1
"""The numbers of the players, and the `winner` of a draw or an unfinished game."""


class State(eqx.Module):
    """One clique game."""

    #: A word for each player and vertex. Bit v is set if the player has coloured the edge to v:
    #: edges (0, 1) and (0, 3) of the first player -> [[0b1010, 0b1, 0, 0b1], [0, 0, 0, 0]]
    adjacency: UInt32[Array, "*batch 2 vertices"]
    moves: Int32[Array, "*batch"]  #: Number of coloured edges.
    over: Bool[Array, "*batch"]  #: Whether the game is over.
    winner: Int32[Array, "*batch"]  #: `FIRST`, `SECOND` or `NOBODY`.


def mover(state: State) -> Int32[Array, "*batch"]:
    """The player to move: `FIRST` or `SECOND`."""
    return state.moves % 2


def colours(config: CliqueConfig, state: State) -> Bool[Array, "2 num_edges"]:
    """The edges that each player has coloured."""
    ends = edges(config.vertices)
    words = state.adjacency[:, ends[:, 0]]
    return ((words >> ends[None, :, 1].astype(np.uint32)) & 1) != 0


def new_game(config: CliqueConfig) -> State:
    """The empty board, with the first player to move."""
    return State(
        adjacency=jnp.zeros((2, config.vertices), jnp.uint32),
        moves=jnp.int32(0),
        over=jnp.bool_(False),
        winner=jnp.int32(NOBODY),
    )


def from_edges(config: CliqueConfig, first: Iterable[int], second: Iterable[int]) -> State:
    """The position with these edges of both players, as an unfinished game. Nothing is checked."""
    words = np.zeros((2, config.vertices), np.uint32)
    moves = 0
    for player, numbers in enumerate((first, second)):
        for one, other in edges(config.vertices)[list(numbers)]:
            words[player, one] |= np.uint32(1 << int(other))
            words[player, other] |= np.uint32(1 << int(one))
            moves += 1
    return replace(new_game(config), adjacency=jnp.asarray(words), moves=jnp.int32(moves))


class Outcome(eqx.Module):
    """The results of a move, besides the new state."""

    #: For the player who moved: 1 if the move won, -1 if it lost, else 0.
    reward: Int32[Array, "*batch"]
    legal: Bool[Array, "*batch"]  #: Whether the move was legal. If not, nothing changed.
    over: Bool[Array, "*batch"]  #: Whether the game is over after the move.
    winner: Int32[Array, "*batch"]  #: `FIRST`, `SECOND`, or `NOBODY`.


def legal_actions(config: CliqueConfig, state: State) -> Bool[Array, " num_edges"]:
    """The uncoloured edges; none if the game is over."""
    first, second = colours(config, state)
    return ~(first | second | state.over)


def play(config: CliqueConfig, state: State, action: Int[Array, ""] | int) -> tuple[State, Outcome]:
    """Colours one edge of one game. Works under `jax.vmap` and `jax.jit`.

    The action is the number of an edge (see `edges`). A coloured edge, any other number and any
    move after the end are illegal: the state does not change, and `legal` is false.

    Raises:
        TypeError: the action is not a single integer.
    """
    action = as_action(action, "the number of an edge, such as 0")
    numbers = np.arange(config.num_edges, dtype=np.int32)
    legal = jnp.any(legal_actions(config, state) & (numbers == action))
    one, other = jnp.asarray(edges(config.vertices))[jnp.clip(action, 0, config.num_edges - 1)]

    player = mover(state)
    coloured = state.adjacency | _edge(config, player, one, other)
    completed = completes_clique(config, coloured[player], one, other)
    moves = state.moves + 1
    full = moves == config.num_edges
    unbeaten = SECOND if config.full_board == "second-wins" else NOBODY
    by_clique = player if config.objective == "form" else 1 - player
    winner = jnp.where(completed, by_clique, jnp.where(full, jnp.int32(unbeaten), NOBODY))
    after = select(legal, State(coloured, moves, completed | full, winner), state)
    won = jnp.where(winner == player, 1, jnp.where(winner == NOBODY, 0, -1))
    return after, Outcome(
        reward=jnp.where(legal, won, 0).astype(jnp.int32),
        legal=legal,
        over=after.over,
        winner=after.winner,
    )


def completes_clique(
    config: CliqueConfig,
    adjacency: UInt32[Array, " vertices"],
    one: Int32[Array, ""],
    other: Int32[Array, ""],
) -> Bool[Array, ""]:
    """Whether the edge from `one` to `other` is in a clique. `adjacency` is of its colour."""
    # The rest of such a clique is among the common neighbours of the two ends.
    common = adjacency[one] & adjacency[other]
    return _has_clique(adjacency, common, config.clique_size - 2)


def _has_clique(
    adjacency: UInt32[Array, " vertices"], among: UInt32[Array, "*shape"], size: int
) -> Bool[Array, "*shape"]:
    if size == 1:
        return has_any(among)
    vertices = jnp.arange(adjacency.shape[0], dtype=jnp.int32)
    ones = tuple(1 for _ in among.shape)
    inside = has_any(among[..., None] & at_place(vertices).reshape(*ones, -1))
    rest = among[..., None] & adjacency.reshape(*ones, -1)
    return jnp.any(inside & _has_clique(adjacency, rest, size - 1), axis=-1)


def _edge(
    config: CliqueConfig, player: Int32[Array, ""], one: Int32[Array, ""], other: Int32[Array, ""]
) -> UInt32[Array, "2 vertices"]:
    """The adjacency of a board with only this edge, in the colour of a player."""
    vertices = np.arange(config.vertices, dtype=np.int32)
    nothing = jnp.uint32(0)
    bits = jnp.where(vertices == one, at_place(other), nothing)
    bits |= jnp.where(vertices == other, at_place(one), nothing)
    theirs = np.arange(2, dtype=np.int32)[:, None] == player
    return jnp.where(theirs, bits[None], nothing)
