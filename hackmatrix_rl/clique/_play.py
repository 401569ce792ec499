"""One move of one clique game."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt32

from hackmatrix_rl.batching import at_place, has_any, select
from hackmatrix_rl.clique._state import NOBODY, SECOND, CliqueConfig, State, colours, edges, mover


class Outcome(eqx.Module):
    """The results of a move, besides the new state."""

    #: Of the player who moved: 1 if they have won with this move, -1 if the other has, else 0.
    reward: Int32[Array, "*batch"]
    legal: Bool[Array, "*batch"]  #: Whether the move was legal. If not, nothing changed.
    over: Bool[Array, "*batch"]  #: Whether the game is over after the move.
    winner: Int32[Array, "*batch"]  #: `FIRST`, `SECOND`, or `NOBODY`.


def new_game(config: CliqueConfig) -> State:
    """The empty board. The first player moves."""
    return State(
        adjacency=jnp.zeros((2, config.vertices), jnp.uint32),
        moves=jnp.int32(0),
        over=jnp.bool_(False),
        winner=jnp.int32(NOBODY),
    )


def legal_actions(config: CliqueConfig, state: State) -> Bool[Array, " num_edges"]:
    """The edges without a colour; none if the game is over."""
    first, second = colours(config, state)
    return ~(first | second | state.over)


def play(config: CliqueConfig, state: State, action: Int[Array, ""] | int) -> tuple[State, Outcome]:
    """Colours one edge of one game. It works under `jax.vmap` and `jax.jit`.

    The action is the number of an edge (see `edges`). An edge that has a colour, any other number
    and any move after the end are illegal: the state stays as it is, and `legal` is false.
    """
    action = jnp.asarray(action).astype(jnp.int32)
    numbers = np.arange(config.num_edges, dtype=np.int32)
    legal = jnp.any(legal_actions(config, state) & (numbers == action))
    one, other = jnp.asarray(edges(config.vertices))[jnp.clip(action, 0, config.num_edges - 1)]

    player = mover(state)
    coloured = state.adjacency | _edge(config, player, one, other)
    completed = completes_clique(config, coloured[player], one, other)
    moves = state.moves + 1
    full = moves == config.num_edges
    unbeaten = SECOND if config.full_board == "second-wins" else NOBODY
    winner = jnp.where(completed, player, jnp.where(full, jnp.int32(unbeaten), NOBODY))
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
    """Whether the edge from `one` to `other` is in a clique of its colour, whose edges hold it.

    Only common neighbours of its two ends can be in such a clique.
    """
    common = adjacency[one] & adjacency[other]
    return _has_clique(adjacency, common, config.clique_size - 2)


def _has_clique(
    adjacency: UInt32[Array, " vertices"], among: UInt32[Array, "*shape"], size: int
) -> Bool[Array, "*shape"]:
    """Whether a set of vertices holds a clique."""
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
    """The words of a board with only this edge, in the colour of a player."""
    vertices = np.arange(config.vertices, dtype=np.int32)
    nothing = jnp.uint32(0)
    bits = jnp.where(vertices == one, at_place(other), nothing)
    bits |= jnp.where(vertices == other, at_place(one), nothing)
    theirs = np.arange(2, dtype=np.int32)[:, None] == player
    return jnp.where(theirs, bits[None], nothing)
