"""A league: everyone plays everyone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.algorithms.self_play._elo import ratings
from hackmatrix_rl.algorithms.self_play._match import MatchResult, match
from hackmatrix_rl.algorithms.self_play._players import BoardPlayer
from hackmatrix_rl.env import SingleGame
from hackmatrix_rl.evaluation import Estimate


@dataclass(frozen=True)
class Standings:
    """The result of a league.

    Attributes:
        results: by the names of two players, the result for the first.
        ratings: Elo ratings by name (see `ratings`), the best first.
    """

    results: Mapping[tuple[str, str], MatchResult]
    ratings: Mapping[str, Estimate]


def league(
    players: Mapping[str, BoardPlayer],
    game: SingleGame[Any],
    *,
    games: int,
    key: Key[Array, ""],
    opening: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Standings:
    """Plays a round robin of the players, and rates them.

    Earlier policies of a training are players such as
    `{"update 100": SearchPlayer(policy, Search(64))}`. Players of the same structure share a
    compiled program.

    Args:
        players: by name, at least two.
        game: the rules.
        games: number of games of each match; see `match`.
        key: source of all randomness.
        opening: number of random moves at the start of each game; players that play without
            chance need some, or all games of a match are one game.
        on_progress: told the number of matches that are over, and of all.

    Raises:
        ValueError: there are fewer than two players, or `games` is not even.
    """
    if len(players) < 2:
        raise ValueError(f"a league needs at least 2 players, not {len(players)}")
    pairs = list(combinations(players, 2))
    results = {}
    for number, (one, other) in enumerate(pairs):
        on_progress(number, len(pairs))
        results[one, other] = match(
            players[one],
            players[other],
            game,
            games=games,
            key=jax.random.fold_in(key, number),
            opening=opening,
        )
    found = ratings(results)
    return Standings(results, dict(sorted(found.items(), key=lambda each: -each[1].mean)))
