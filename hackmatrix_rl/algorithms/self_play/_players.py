"""Players of games of two, who play against each other."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.clique import Solution
from hackmatrix_rl.env import SingleGame


class BoardPlayer(eqx.Module):
    """Chooses moves in many positions at once."""

    @abstractmethod
    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        """A legal move in each position; any number where the game is over.

        Args:
            game: the rules.
            states: positions in which this player moves; each leaf `[games, ...]`.
            keys: one for each position; a move depends on nothing of the other positions.
        """


@final
class RandomPlayer(BoardPlayer):
    """Plays a legal move at random."""

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        """A uniformly random legal move in each position."""
        return _any_of(jax.vmap(game.legal)(states), keys)


@final
class SearchPlayer(BoardPlayer):
    """Plays the best move of a search with a network, without noise.

    Attributes:
        policy: the network.
        search: the search.
    """

    policy: ActorCritic
    search: Search

    def __init__(self, policy: ActorCritic, search: Search) -> None:
        """Takes a search as it trains, and leaves its noise out.

        Args:
            policy: the network.
            search: the search; its `gumbel_scale` is set to 0.
        """
        self.policy = policy
        self.search = replace(search, gumbel_scale=0.0)

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        """The search's move."""
        return self.search(game, self.policy, states, keys).action


@final
class PerfectPlayer(BoardPlayer):
    """Plays the clique game optimally, from the table of all its positions.

    Among moves of the same value it plays one at random: it never gives a won game away, but does
    not win as fast as it can.

    Attributes:
        solution: of the game that is played.
    """

    solution: Solution

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        """One of the moves that keep the value of the position."""
        return _any_of(jax.vmap(self.solution.best_actions)(states), keys)


def _any_of(
    moves: Bool[Array, "games num_actions"], keys: Key[Array, " games"]
) -> Int32[Array, " games"]:
    """One of the flagged moves of each game; any move where none is flagged."""

    def one(moves: Bool[Array, " num_actions"], key: Key[Array, ""]) -> Int32[Array, ""]:
        return MaskedCategorical(jnp.zeros(moves.shape, jnp.float32), moves).sample(key)

    return jax.vmap(one)(moves, keys)
