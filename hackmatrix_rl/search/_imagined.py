"""Imagined games: single decisions of an expert, and games that it plays.

A decision simulates the legal actions sequentially. A game alternates decisions and moves. Both use
one loop in which each game simulates one action per iteration, so games with few legal actions or
few moves do not wait for others.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    Event,
    GameConfig,
    Position,
    allowed,
    attempt,
)
from hackmatrix_rl.search._evaluation import evaluate_result
from hackmatrix_rl.search._weights import EvaluationWeights
from hackmatrix_rl.system.batching import Chance, nth_bit, one_round_loop, select, union

Legal = Bool[Array, " num_actions"]
PerAction = Float32[Array, " num_actions"]

NOTHING = np.float32(-1e9)
"""The value of an action that is not simulated; less than the value of any position."""


class Imagined(eqx.Module):
    """An imagined game."""

    position: Position  #: The current position.
    #: The actions to simulate before the next move, one bit each: `0b0110` for the actions 1 and 2.
    untried: UInt32[Array, ""]
    choice: Int32[Array, ""]  #: The next move, once `untried` is empty.
    #: The value of `choice`; `NOTHING` before the first action is simulated.
    best: Float32[Array, ""]
    #: The value of each action in the last decision; `None` if they are not stored.
    values: PerAction | None
    moves_left: Int32[Array, ""]  #: Most moves that are still to play.
    moves: Int32[Array, ""]  #: Number of moves played.
    worth: Float32[Array, ""]  #: The value of the last move's result.
    completed: Bool[Array, ""]  #: Whether the last move completed the stage, which ends the game.
    won: Bool[Array, ""]  #: Whether that was the last stage.
    attempts: Int32[Array, ""]  #: Number of iterations so far.

    @property
    def died(self) -> Bool[Array, ""]:
        """Whether the player has no hp left."""
        return self.position.player.hp == 0


def deciding(position: Position, legal: Legal) -> Imagined:
    """A game with one decision among `legal` actions, and no move."""
    return replace(
        playing(position, jnp.int32(0), jnp.int32(0)),
        untried=bits_of_actions(legal),
        values=jnp.full(NUM_ACTIONS, NOTHING),
    )


def playing(position: Position, action: Int32[Array, ""], moves: Int32[Array, ""]) -> Imagined:
    """A game that begins with an action, not UNDO, and has at most `moves` moves.

    These include the first one, and a decision follows the last. With 0, nothing is played.
    """
    no, zero, nothing = jnp.bool_(False), jnp.int32(0), jnp.float32(NOTHING)
    return Imagined(
        position=position,
        untried=jnp.uint32(0),
        choice=action,
        best=nothing,
        values=None,
        moves_left=moves,
        moves=zero,
        worth=nothing,
        completed=no,
        won=no,
        attempts=zero,
    )


Given = tuple[EvaluationWeights, Chance]


def imagine(
    config: GameConfig, game: Imagined, weights: EvaluationWeights, *, chance: Chance
) -> Imagined:
    """Plays an imagined game until it ends or has no moves left; use `jax.vmap` for a batch.

    Each move has the best heuristic value by `weights`. Every iteration has its part of `chance`.
    """

    def goes_on(game: Imagined, given: Given) -> Bool[Array, ""]:
        return (game.untried != 0) | (game.moves_left > 0)

    def one(game: Imagined, given: Given) -> Imagined:
        weights, chance = given
        trying = game.untried != 0
        tried = nth_bit(game.untried, jnp.int32(0))
        action = jnp.where(trying, tried, game.choice)
        after, event = attempt(game.position, action, chance=chance.fold_in(game.attempts))
        worth = evaluate_result(config, after, event, weights)
        return select(trying, _tried(game, tried, worth), _played(game, after, event, worth))

    def some(game: Imagined, given: Given) -> Imagined:
        return jax.lax.fori_loop(
            0, _ROUNDS, lambda _, game: select(goes_on(game, given), one(game, given), game), game
        )

    return one_round_loop(goes_on, some, game, (weights, chance), share=_SHARE, least=_LEAST)


_ROUNDS, _SHARE, _LEAST = 4, 8, 256
"""Iterations between two checks of which games are still running; the width of the loop's buffer:
1/8 of the games, at least 256."""


def _tried(game: Imagined, action: Int32[Array, ""], worth: Float32[Array, ""]) -> Imagined:
    better = worth > game.best
    values = game.values
    if values is not None:
        values = jnp.where(np.arange(NUM_ACTIONS) == action, worth, values)
    return replace(
        game,
        untried=game.untried & (game.untried - 1),  # 0b0110 -> 0b0100
        choice=jnp.where(better, action, game.choice),
        best=jnp.maximum(worth, game.best),
        values=values,
        attempts=game.attempts + 1,
    )


def _played(game: Imagined, after: Position, event: Event, worth: Float32[Array, ""]) -> Imagined:
    # UNDO is not simulated: imagined games have no history.
    legal = bits_of_actions(allowed(after, can_undo=jnp.bool_(False)))
    over = event.completed | event.died
    untried = jnp.where(over, jnp.uint32(0), legal)
    return replace(
        game,
        position=after,
        untried=untried,
        best=jnp.float32(NOTHING),
        moves_left=jnp.where(untried == 0, 0, game.moves_left - 1),
        moves=game.moves + 1,
        worth=worth,
        completed=event.completed,
        won=event.won,
        attempts=game.attempts + 1,
    )


def bits_of_actions(legal: Legal) -> UInt32[Array, ""]:
    """Packs actions into the bits of one word: `[0 1 1 0] -> 0b0110`."""
    bits = np.uint32(1) << np.arange(NUM_ACTIONS, dtype=np.uint32)
    return union(jnp.where(legal, bits, jnp.uint32(0)))
