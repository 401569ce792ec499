"""Playing strength: mistakes, Elo ratings, and a league of the networks of a run."""

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
    """The mistakes of one player in some games, by the exact values of all positions.

    Attributes:
        moves: number of moves.
        won: number of moves in a won position.
        thrown_away: number of moves in a won position that lost the win.
        mistakes: number of moves that lowered the value of the position.
    """

    moves: int
    won: int
    thrown_away: int
    mistakes: int


def mistakes(solution: Solution, record: Record, player: int, *, opening: int = 0) -> Mistakes:
    """Counts the mistakes of one player, `FIRST` or `SECOND`, after the first `opening` moves."""
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
    """The result of a match, and the mistakes of the first player.

    `different` is the number of distinct games, counted separately by who begins.
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
    """Plays a match, half of the games begun by each player, and counts `player`'s mistakes.

    The other player may be `PerfectPlayer(solution)`. The first `opening` moves of each game are
    random and not counted.
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
"""Elo points per unit of log-odds."""
_Z = 1.959964  # two-sided 95%
_ROUNDS = 100


def ratings(
    results: Mapping[tuple[str, str], MatchResult], *, prior_games: float = 1.0
) -> dict[str, Estimate]:
    """Maximum likelihood Elo ratings with 95% intervals; the mean rating is 0.

    The expected score of a player is `1 / (1 + 10^(-d/400))`, with the rating difference d. A draw
    counts as half a win and half a loss. `prior_games` drawn games are added to each match, so
    ratings stay finite if a player won every game. The intervals are from the Fisher information
    of this model, which cannot represent intransitive results (A beats B, B beats C, C beats A).

    Source: Elo 1978, "The rating of chessplayers, past and present"; Bradley and Terry 1952, "Rank
    analysis of incomplete block designs".

    Raises:
        ValueError: there are no results, a match has no games, or the matches do not connect all
            players.
    """
    names = sorted({name for pair in results for name in pair})
    points, games = _tables(names, results, prior_games)
    strength = np.zeros(len(names))
    for _ in range(_ROUNDS):
        expected, information = _model(strength, games)
        change = np.linalg.pinv(information) @ (points - games * expected).sum(axis=1)
        # Damped: far from the maximum, a full Newton step may overshoot.
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
    """The points of the first player of each pair, and the number of games of each pair."""
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
    """The expected score of each pair, and the Fisher information of the strengths."""
    expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    weight = games * expected * (1 - expected)
    return expected, np.diag(weight.sum(axis=1)) - weight


@dataclass(frozen=True)
class Standings:
    """The result of each match, for the first of its two names, and the ratings, best first."""

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
    """Plays a round robin of the players, and rates them.

    Earlier policies of a training are players such as
    `{"update 100": SearchPlayer(policy, Search(64))}`. Players of the same structure share a
    compiled program. Deterministic players need some random `opening` moves, or all games of a
    match are equal. `on_progress` is called with the number of matches played, and the total;
    `on_games` with the games of each match.

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
    """The snapshots of a run for its league, at the start and after `marks` games."""

    path: Path
    marks: tuple[int, ...]

    @classmethod
    def from_run(cls, run: Path, *, size: int, goal: int) -> "LeagueFolder":
        """The league folder of a run, with `size` snapshots evenly spaced over `goal` games."""
        marks = sorted({max(1, goal * number // size) for number in range(1, size + 1)})
        return cls(run / "league", tuple(marks))

    def next_mark(self, games: int) -> int | None:
        """The next mark after `games` games; `None` after the last."""
        return next((mark for mark in self.marks if mark > games), None)

    def passed(self, newest: int, games: int) -> list[int]:
        """The marks within the `newest` of `games` games."""
        return [mark for mark in self.marks if games - newest < mark <= games]

    def write(self, mark: int, policy: ActorCritic) -> None:
        """Writes a snapshot."""
        self.path.mkdir(exist_ok=True)
        save(policy, self.path / f"{mark:012}{_SUFFIX}")

    def read(self, like: ActorCritic) -> dict[str, ActorCritic]:
        """The snapshots, by the number of games before them.

        A run that was extended may have more than `marks`; then an evenly spaced subset.
        """
        kept = sorted(self.path.glob(f"*{_SUFFIX}"))
        most = len(self.marks) + 1
        if len(kept) > most:
            kept = [kept[place * (len(kept) - 1) // max(1, most - 1)] for place in range(most)]
        return {f"{int(path.stem):,} games": load(path, like=like) for path in kept}


@final
class KeepForLeague(Hook):
    """Writes snapshots of the network for the league; only in the process that `writes`."""

    def __init__(self, league: LeagueFolder, *, writes: bool, note: Callable[[str], Any]) -> None:
        self._league = league
        self._writes = writes
        self._note = note

    def on_start(self, trainer: Trainer[Any]) -> None:
        """Writes the untrained network."""
        if trainer.algorithm.progress(trainer.state) == 0:
            self._write(0, trainer)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """Updates until the next snapshot."""
        done = trainer.algorithm.progress(trainer.state)
        mark = self._league.next_mark(done)
        return None if mark is None else updates_until(trainer.algorithm, trainer.state, mark)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Writes the network if the dispatch has passed a mark."""
        # A dispatch ends where a mark may be passed, but one update may pass several marks.
        for mark in self._league.passed(metrics.episodes, int(metrics.extra["games"])):
            self._write(mark, trainer)

    def _write(self, mark: int, trainer: Trainer[Any]) -> None:
        if not self._league.marks:
            return
        policy = trainer.policy  # a collective: every process gathers it
        if not self._writes:
            return
        try:
            self._league.write(mark, policy)
        except OSError as error:  # the training continues without the snapshot
            self._note(f"could not keep a network for the league: {error}")
