"""The league of a run of self-play: its network at several moments, against each other."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play import (
    BoardPlayer,
    JudgedMatch,
    PerfectPlayer,
    RandomPlayer,
    SearchPlayer,
    Standings,
    judged_match,
    league,
)
from hackmatrix_rl.checkpoints import load, save
from hackmatrix_rl.clique import solve
from hackmatrix_rl.config import SelfPlayConfig
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.evaluation import Estimate
from hackmatrix_rl.runs._folder import RunFolder

RANDOM = "random"
MOST_SOLVED = 6
"""Vertices of the largest board whose every position is solved in seconds."""
_SUFFIX = ".policy"
_LEAGUE_KEY, _PERFECT_KEY = 1, 2


@dataclass(frozen=True)
class LeagueFolder:
    """The networks that a run keeps for its league.

    Attributes:
        path: the folder.
        marks: numbers of games at which a network is kept, beside the one at the start.
    """

    path: Path
    marks: tuple[int, ...]

    @classmethod
    def of(cls, config: SelfPlayConfig, folder: RunFolder) -> "LeagueFolder":
        """The folder in that of a run, and the marks that its settings ask for."""
        size, goal = config.league_size, config.num_games
        marks = sorted({max(1, goal * number // size) for number in range(1, size + 1)})
        return cls(folder.path / "league", tuple(marks))

    def next_mark(self, games: int) -> int | None:
        """The first mark that is not reached; `None` after the last."""
        return next((mark for mark in self.marks if mark > games), None)

    def passed(self, newest: int, games: int) -> list[int]:
        """The marks that the newest games have passed.

        Args:
            newest: number of the newest games.
            games: number of all games.
        """
        return [mark for mark in self.marks if games - newest < mark <= games]

    def write(self, mark: int, policy: ActorCritic) -> None:
        """Keeps a network.

        Raises:
            OSError: it cannot be written.
        """
        self.path.mkdir(exist_ok=True)
        save(policy, self.path / f"{mark:012}{_SUFFIX}")

    def read(self, like: ActorCritic) -> dict[str, ActorCritic]:
        """The kept networks, by the number of games before them.

        A run that was made longer has kept more than it wants: they are then some, evenly.

        Args:
            like: a network of the same sizes.

        Raises:
            ConfigError: a file is damaged, or of another network.
        """
        kept = sorted(self.path.glob(f"*{_SUFFIX}"))
        most = len(self.marks) + 1
        if len(kept) > most:
            kept = [kept[place * (len(kept) - 1) // max(1, most - 1)] for place in range(most)]
        return {f"{int(path.stem):,} games": load(path, like=like) for path in kept}


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
    kept = LeagueFolder.of(config, folder).read(policy)
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
