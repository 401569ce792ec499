"""How well players play: mistakes, Elo ratings, and a league of a run's networks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._match import (
    NO_MOVE,
    BoardPlayer,
    MatchResult,
    Record,
    both_sides,
)
from hackmatrix_rl.env import CliqueGame, SingleGame
from hackmatrix_rl.evaluation import Estimate
from hackmatrix_rl.games.clique import FIRST, SECOND, Solution, State, new_game, play
from hackmatrix_rl.runs.checkpoints import load, save
from hackmatrix_rl.training import Hook, Metrics, Trainer, updates_until


@dataclass(frozen=True)
class Mistakes:
    """The moves of one player in some games, judged by the table of all positions.

    Attributes:
        moves: number of moves.
        won: how many of them were made in a position that was won.
        thrown_away: how many of those gave the win away.
        mistakes: how many moves made the value worse: these, and draws that were lost.
    """

    moves: int
    won: int
    thrown_away: int
    mistakes: int


def mistakes(solution: Solution, record: Record, player: int, *, opening: int = 0) -> Mistakes:
    """Judges the moves of one player, `FIRST` or `SECOND`, after the first `opening` moves."""
    before, after = (np.asarray(each) for each in _values(solution, record.moves))
    turn = np.arange(before.shape[1])
    judged = (np.asarray(record.moves) != NO_MOVE) & (turn % 2 == player) & (turn >= opening)
    worse = judged & (after < before)
    return Mistakes(
        moves=int(judged.sum()),
        won=int((judged & (before == 1)).sum()),
        thrown_away=int((worse & (before == 1)).sum()),
        mistakes=int(worse.sum()),
    )


@dataclass(frozen=True)
class JudgedMatch:
    """A match of a player, and the mistakes of the player.

    `different` is the number of games that differ from each other, by who begins.
    """

    result: MatchResult
    judged: Mistakes
    different: int


def judged_match(
    player: BoardPlayer,
    other: BoardPlayer,
    solution: Solution,
    *,
    games: int,
    key: Key[Array, ""],
    opening: int = 0,
) -> JudgedMatch:
    """Lets a player play half of the games with each side, and judges the player's moves.

    The other player may be `PerfectPlayer(solution)`. The first `opening` moves of each game are
    random and not judged.
    """
    game = CliqueGame(solution.config)
    first, second = both_sides(player, other, game, games, key, opening)
    both = [
        mistakes(solution, record, side, opening=opening)
        for record, side in ((first, FIRST), (second, SECOND))
    ]
    return JudgedMatch(
        result=MatchResult.from_results(first.result, -second.result),
        judged=Mistakes(*(sum(each) for each in zip(*map(astuple, both), strict=True))),
        different=sum(len(np.unique(record.moves, axis=0)) for record in (first, second)),
    )


@eqx.filter_jit
def _values(
    solution: Solution, moves: Int32[Array, "games most_moves"]
) -> tuple[Int32[Array, "games most_moves"], Int32[Array, "games most_moves"]]:
    """The value of each position and of the move made in it, both for the player to move."""

    def one(moves: Int32[Array, " most_moves"]) -> tuple[Array, Array]:
        def step(state: State, move: Int32[Array, ""]) -> tuple[State, tuple[Array, Array]]:
            after, _ = play(solution.config, state, move)
            return after, (solution.value(state), -solution.value(after))

        return jax.lax.scan(step, new_game(solution.config), moves)[1]

    return jax.vmap(one)(moves)


SCALE = 400 / math.log(10)
"""Elo points of one unit in the logarithm of the odds."""
_Z = 1.959964  # two-sided 95%
_ROUNDS = 100


def ratings(
    results: Mapping[tuple[str, str], MatchResult], *, prior_games: float = 1.0
) -> dict[str, Estimate]:
    """The most likely Elo rating of each player, with a 95% interval; their mean is 0.

    The expected score of a player is `1 / (1 + 10^(-d/400))` with d the difference of the ratings.
    A draw counts as half a win and half a loss; `prior_games` drawn games are added to each match,
    which keeps the ratings finite where a player won every game. The interval follows from the
    curvature of the likelihood, so it knows nothing of players who beat each other in a circle.

    Source: Elo 1978, "The rating of chessplayers, past and present"; Bradley and Terry 1952, "Rank
    analysis of incomplete block designs".

    Raises:
        ValueError: there are no results, a match has no games, or some players have no match that
            links them with the others.
    """
    names = sorted({name for pair in results for name in pair})
    points, games = _tables(names, results, prior_games)
    strength = np.zeros(len(names))
    for _ in range(_ROUNDS):
        expected, information = _model(strength, games)
        change = np.linalg.pinv(information) @ (points - games * expected).sum(axis=1)
        # A full Newton step may overshoot far from the maximum.
        strength = strength + change / max(1.0, float(np.abs(change).max()))
        strength -= strength.mean()
    _, information = _model(strength, games)
    errors = _Z * np.sqrt(np.diag(np.linalg.pinv(information)))
    return {
        name: Estimate(float(SCALE * s), float(SCALE * (s - e)), float(SCALE * (s + e)))
        for name, s, e in zip(names, strength, errors, strict=True)
    }


def _tables(
    names: Sequence[str], results: Mapping[tuple[str, str], MatchResult], prior_games: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of players, the points of the first, and the number of games."""
    points = np.zeros((len(names), len(names)))
    games = np.zeros_like(points)
    for (one, other), result in results.items():
        if not result.games:
            raise ValueError(f"the match of {one} and {other} has no games; play some")
        i, j = names.index(one), names.index(other)
        won = result.wins + 0.5 * result.draws + 0.5 * prior_games
        count = result.games + prior_games
        points[i, j] += won
        points[j, i] += count - won
        games[i, j] += count
        games[j, i] += count
    linked = np.linalg.matrix_power((games > 0) + np.eye(len(names)), max(len(names), 1)) > 0
    if not names or not linked.all():
        apart = [name for name, row in zip(names, linked, strict=True) if not row.all()]
        raise ValueError(f"no match links {', '.join(apart) or 'anyone'} with all the others")
    return points, games


def _model(strength: np.ndarray, games: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The expected score of each pair, and Fisher's information about the strengths."""
    expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    weight = games * expected * (1 - expected)
    return expected, np.diag(weight.sum(axis=1)) - weight


@dataclass(frozen=True)
class Standings:
    """The result of each match, for the first of two names, and ratings, the best first."""

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
    on_games: Callable[[Record], object] = lambda record: None,
) -> Standings:
    """Plays a round robin of the players, and rates them. `on_games` gets the games.

    Earlier policies of a training are players such as
    `{"update 100": SearchPlayer(policy, Search(64))}`. Players of the same structure share a
    compiled program. Players that play without chance need some `opening` moves, which are random,
    or all games of a match are one game.

    Raises:
        ValueError: there are fewer than two players, or `games` of a match is not even.
    """
    if len(players) < 2:
        raise ValueError(f"a league needs at least 2 players, not {len(players)}")
    pairs = list(combinations(players, 2))
    results = {}
    for number, (one, other) in enumerate(pairs):
        on_progress(number, len(pairs))
        here = jax.random.fold_in(key, number)
        begun, answered = both_sides(players[one], players[other], game, games, here, opening)
        results[one, other] = MatchResult.from_results(begun.result, -answered.result)
        on_games(begun)
        on_games(answered)
    found = ratings(results)
    return Standings(results, dict(sorted(found.items(), key=lambda each: -each[1].mean)))


_SUFFIX = ".policy"


@dataclass(frozen=True)
class LeagueFolder:
    """The networks that a run keeps for its league, at the start and at `marks`, in games."""

    path: Path
    marks: tuple[int, ...]

    @classmethod
    def from_run(cls, run: Path, *, size: int, goal: int) -> "LeagueFolder":
        """The league folder of a run, for `size` networks, evenly over `goal` games."""
        marks = sorted({max(1, goal * number // size) for number in range(1, size + 1)})
        return cls(run / "league", tuple(marks))

    def next_mark(self, games: int) -> int | None:
        """The first mark that is not reached; `None` after the last."""
        return next((mark for mark in self.marks if mark > games), None)

    def passed(self, newest: int, games: int) -> list[int]:
        """The marks that the newest games have passed, of all games."""
        return [mark for mark in self.marks if games - newest < mark <= games]

    def write(self, mark: int, policy: ActorCritic) -> None:
        """Keeps a network."""
        self.path.mkdir(exist_ok=True)
        save(policy, self.path / f"{mark:012}{_SUFFIX}")

    def read(self, like: ActorCritic) -> dict[str, ActorCritic]:
        """The kept networks, by the number of games before them.

        A run that was made longer has kept more than it wants: they are then some, evenly.
        """
        kept = sorted(self.path.glob(f"*{_SUFFIX}"))
        most = len(self.marks) + 1
        if len(kept) > most:
            kept = [kept[place * (len(kept) - 1) // max(1, most - 1)] for place in range(most)]
        return {f"{int(path.stem):,} games": load(path, like=like) for path in kept}


@final
class KeepForLeague(Hook):
    """Keeps earlier networks of self-play for a league; only a process that `writes` does so."""

    def __init__(self, league: LeagueFolder, *, writes: bool, note: Callable[[str], Any]) -> None:
        self._league = league
        self._writes = writes
        self._note = note

    def on_start(self, trainer: Trainer[Any]) -> None:
        """Keeps the untrained network."""
        if trainer.algorithm.progress(trainer.state) == 0:
            self._write(0, trainer)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """Updates until the next network is kept."""
        done = trainer.algorithm.progress(trainer.state)
        mark = self._league.next_mark(done)
        return None if mark is None else updates_until(trainer.algorithm, trainer.state, mark)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Keeps the network at the marks that the dispatch has passed."""
        # A dispatch ends where a mark may be passed, but one update may pass several.
        for mark in self._league.passed(metrics.episodes, int(metrics.extra["games"])):
            self._write(mark, trainer)

    def _write(self, mark: int, trainer: Trainer[Any]) -> None:
        if not self._league.marks:
            return
        policy = trainer.policy  # every process takes part in gathering it
        if not self._writes:
            return
        try:
            self._league.write(mark, policy)
        except OSError as error:  # a league is worth having, but no reason to stop
            self._note(f"could not keep a network for the league: {error}")
