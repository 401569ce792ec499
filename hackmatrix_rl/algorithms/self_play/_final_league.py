"""The end of a run of self-play: its networks against each other and the perfect player."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._league import Standings, league
from hackmatrix_rl.algorithms.self_play._league_folder import LeagueFolder
from hackmatrix_rl.algorithms.self_play._mistakes import JudgedMatch, judged_match
from hackmatrix_rl.algorithms.self_play._players import (
    BoardPlayer,
    PerfectPlayer,
    RandomPlayer,
    SearchPlayer,
)
from hackmatrix_rl.clique import solve
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.evaluation import Estimate
from hackmatrix_rl.runs import RunFolder

RANDOM = "random"
MOST_SOLVED = 6
"""Vertices of the largest board whose every position is solved in seconds."""
_LEAGUE_KEY, _PERFECT_KEY = 1, 2


def play_league(
    config: SelfPlayConfig,
    folder: RunFolder,
    policy: ActorCritic,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Standings:
    """Lets the networks that a run has kept play against each other and a random player.

    Each plays with the search of the training, without noise. Games begin with two random moves,
    so that not all of them are one game.

    Args:
        config: of the run.
        folder: of the run.
        policy: the newest network.
        on_progress: told the number of matches that are over, and of all.

    Raises:
        ConfigError: a kept network is damaged.
    """
    kept = LeagueFolder.of(folder.path, size=config.league_size, goal=config.num_games).read(policy)
    newest = f"{config.num_games:,} games"
    players: dict[str, BoardPlayer] = {
        name: SearchPlayer(each, config.search()) for name, each in {**kept, newest: policy}.items()
    }
    players[RANDOM] = RandomPlayer()
    game = CliqueGame(config.game())
    return league(
        players,
        game,
        games=config.league_games,
        key=_key(config, _LEAGUE_KEY),
        opening=_opening(game),
        on_progress=on_progress,
    )


def play_perfect(config: SelfPlayConfig, policy: ActorCritic) -> JudgedMatch | None:
    """Plays a network against the perfect player; `None` on a board that is too large to solve.

    Args:
        config: of the run.
        policy: the network; it plays with the search of the training, without noise.
    """
    if config.vertices > MOST_SOLVED:
        return None
    solution, game = solve(config.game()), CliqueGame(config.game())
    return judged_match(
        SearchPlayer(policy, config.search()),
        PerfectPlayer(solution),
        solution,
        games=config.league_games,
        key=_key(config, _PERFECT_KEY),
        opening=_opening(game),
    )


def standings_as_dict(standings: Standings, games: int) -> dict[str, Any]:
    """The ratings by player, as a run's summary holds them.

    Args:
        standings: of the league.
        games: number of games of each match.
    """

    def one(estimate: Estimate) -> dict[str, Any]:
        return {"mean": estimate.mean, "ci95": [estimate.low, estimate.high]}

    matches = len(standings.ratings) - 1
    return {
        name: {"episodes": games * matches, "elo": one(estimate)}
        for name, estimate in standings.ratings.items()
    }


def _opening(game: CliqueGame) -> int:
    """Random moves at the start of a game."""
    return min(2, game.num_actions - 1)


def _key(config: SelfPlayConfig, number: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), 2**31 + number)
