"""How far from perfect recorded games are."""

from dataclasses import astuple, dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.algorithms.self_play._match import (
    NO_MOVE,
    BoardPlayer,
    MatchResult,
    Record,
    both_sides,
)
from hackmatrix_rl.clique import FIRST, SECOND, Solution, State, new_game, play
from hackmatrix_rl.env import CliqueGame


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

    Raises:
        ValueError: `games` is not even, or less than 2.
    """
    game = CliqueGame(solution.config)
    first, second = both_sides(player, other, game, games, key, opening)
    both = [
        mistakes(solution, record, side, opening=opening)
        for record, side in ((first, FIRST), (second, SECOND))
    ]
    return JudgedMatch(
        result=MatchResult.of(first.result, -second.result),
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
