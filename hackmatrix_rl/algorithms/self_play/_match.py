"""Players of two-player games, and matches between them."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.env import SingleGame, env_keys
from hackmatrix_rl.evaluation import Estimate, rate_of
from hackmatrix_rl.games.clique import Solution
from hackmatrix_rl.system.batching import select
from hackmatrix_rl.system.errors import check_key, whole


class BoardPlayer(eqx.Module):
    """Chooses moves in a batch of positions."""

    @abstractmethod
    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        """A legal move in each position; undefined where the game is over.

        Each position `[games, ...]` has its own key. A move does not depend on the other positions.
        """

    def moving_second(self) -> "BoardPlayer":
        """The player to use in games that the opponent begins; by default the same."""
        return self


@final
class RandomPlayer(BoardPlayer):
    """Plays a uniformly random legal move."""

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        return _any_of(jax.vmap(game.legal)(states), keys)


@final
class SearchPlayer(BoardPlayer):
    """Plays the best move of a search with a network, without noise."""

    policy: ActorCritic
    search: Search

    def __init__(self, policy: ActorCritic, search: Search) -> None:
        """Takes the search of a training, and sets its `gumbel_scale` to 0."""
        self.policy = policy
        self.search = replace(search, gumbel_scale=0.0)

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        return self.search(game, self.policy, states, keys).action

    def moving_second(self) -> "SearchPlayer":
        """The player with its handicap (`Search.simulations_second`)."""
        return SearchPlayer(self.policy, self.search.for_second)


@final
class PerfectPlayer(BoardPlayer):
    """Plays the clique game optimally, by the exact values of all positions.

    It plays a random one of the moves with the best value, so it never loses a won position, but
    does not win in the fewest moves.
    """

    solution: Solution

    def choose(
        self, game: SingleGame[Any], states: PyTree[Array], keys: Key[Array, " games"]
    ) -> Int32[Array, " games"]:
        return _any_of(jax.vmap(self.solution.best_actions)(states), keys)


def _any_of(
    moves: Bool[Array, "games num_actions"], keys: Key[Array, " games"]
) -> Int32[Array, " games"]:
    """A random one of the flagged moves of each game; undefined if none is flagged."""

    def one(moves: Bool[Array, " num_actions"], key: Key[Array, ""]) -> Int32[Array, ""]:
        return MaskedCategorical(jnp.zeros(moves.shape, jnp.float32), moves).sample(key)

    return jax.vmap(one)(moves, keys)


def opening_of(game: SingleGame[Any]) -> int:
    """The number of random moves at the start of the games of a match, to make them differ."""
    return min(2, game.num_actions - 1)


NO_MOVE = -1
"""The padding of a record after the end of a game."""


class Record(eqx.Module):
    """Finished games.

    `moves` has the moves of each game, padded with `NO_MOVE`. `result` is for the player who began:
    1 for a win, 0 for a draw, -1 for a loss.
    """

    moves: Int32[Array, "games most_moves"]
    result: Float32[Array, " games"]


@dataclass(frozen=True)
class MatchResult:
    """The result of a match, for the first of the two players."""

    wins: int
    draws: int
    losses: int

    @classmethod
    def from_results(cls, *results: Float32[Array, " games"]) -> "MatchResult":
        """Counts results of games: 1 for a win of the first player, 0 for a draw, -1 for a loss."""
        points = np.concatenate([np.asarray(each) for each in results])
        return cls(*(int((points == result).sum()) for result in (1, 0, -1)))

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> Estimate:
        """Mean points per game, a draw counts half, with Wilson's 95% interval."""
        return rate_of(np.repeat([1.0, 0.5, 0.0], [self.wins, self.draws, self.losses]))

    def __str__(self) -> str:
        score = self.score
        return (
            f"{self.wins} won, {self.draws} drawn, {self.losses} lost: score {score.mean:.3f} "
            f"({score.low:.3f} to {score.high:.3f})"
        )


class _Board(eqx.Module):
    """The carry of the loop of `play_games`."""

    states: PyTree[Array]
    over: Bool[Array, " games"]
    result: Float32[Array, " games"]
    moves: Int32[Array, "most_moves games"]
    number: Int32[Array, ""]


@eqx.filter_jit
def play_games(
    first: BoardPlayer,
    second: BoardPlayer,
    game: SingleGame[Any],
    keys: Key[Array, " games"],
    *,
    opening: int = 0,
) -> Record:
    """Plays one game for each key; `first` begins, and the first `opening` moves are random.

    A game has at most `game.num_actions` moves, since each action is played at most once.
    """
    second = second.moving_second()

    def move(player: BoardPlayer, board: _Board) -> _Board:
        here = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, board.number)
        drawn = RandomPlayer().choose(game, board.states, here)
        chosen = player.choose(game, board.states, here)
        action = jnp.where(board.number < opening, drawn, chosen)
        played = jax.vmap(lambda state, move, key: game.play(state, move, key=key))(
            board.states, action, here
        )
        sign = jnp.where(board.number % 2 == 0, 1.0, -1.0)
        row = jnp.where(board.over, NO_MOVE, action)
        return _Board(
            states=jax.vmap(select)(board.over, board.states, played.state),
            over=board.over | played.terminated | played.truncated,
            result=jnp.where(board.over, board.result, sign * played.reward),
            moves=board.moves.at[board.number].set(row),
            number=board.number + 1,
        )

    most = game.num_actions + game.num_actions % 2  # each iteration plays two moves
    board = _Board(
        states=jax.vmap(lambda key: game.start(key=key))(keys),
        over=jnp.zeros(keys.shape, bool),
        result=jnp.zeros(keys.shape, jnp.float32),
        moves=jnp.full((most, *keys.shape), NO_MOVE, jnp.int32),
        number=jnp.int32(0),
    )
    board = jax.lax.while_loop(
        lambda board: ~jnp.all(board.over) & (board.number < most),
        lambda board: move(second, move(first, board)),
        board,
    )
    return Record(board.moves.T, board.result)


def match(
    one: BoardPlayer,
    other: BoardPlayer,
    game: SingleGame[Any],
    *,
    games: int,
    key: Key[Array, ""],
    opening: int = 0,
) -> MatchResult:
    """Plays a match, in which each player begins half of the games; the result is for `one`.

    The first `opening` moves of a game are random, and the same in two games that differ in who
    begins.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: `games` is not even, or less than 2.
    """
    check_key(key)
    begun, answered = both_sides(one, other, game, games, key, opening)
    return MatchResult.from_results(begun.result, -answered.result)


def both_sides(
    one: BoardPlayer,
    other: BoardPlayer,
    game: SingleGame[Any],
    games: int,
    key: Key[Array, ""],
    opening: int,
) -> tuple[Record, Record]:
    """The games of a match that `one` begins, and those that `other` begins."""
    if whole("games", games, 2) % 2:
        raise ValueError(f"games must be even, not {games}: each player begins half of them")
    keys = env_keys(key, games // 2)
    begun = play_games(one, other, game, keys, opening=opening)
    return begun, play_games(other, one, game, keys, opening=opening)
