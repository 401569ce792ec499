"""Imagined games: single decisions of an expert, and games that it plays.

A decision simulates the legal actions sequentially. A game alternates decisions and moves. In the
loop of either, each game simulates one action per iteration, so games with few legal actions or few
moves do not wait for others.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

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
Value = Float32[Array, ""]
Carry = TypeVar("Carry", bound=PyTree)

NOTHING = np.float32(-1e9)
"""The value of an action that is not simulated; less than the value of any position."""


class Decision(eqx.Module):
    """The choice of the action whose result has the best heuristic value."""

    #: The actions to simulate before the next move, one bit each: `0b0110` for the actions 1 and 2.
    untried: UInt32[Array, ""]
    choice: Int32[Array, ""]  #: The best action so far.
    #: The value of `choice`; `NOTHING` before the first action is simulated.
    best: Float32[Array, ""]
    attempts: Int32[Array, ""]  #: Number of iterations so far.
    #: The value of each action, `NOTHING` for those not simulated; `None` if they are not stored.
    values: PerAction | None = None

    def tried(self, worth: Value) -> "Decision":
        """After the simulation of `next`, whose result has this value."""
        values = self.values
        if values is not None:
            values = jnp.where(np.arange(NUM_ACTIONS) == self.next, worth, values)
        return Decision(
            untried=self.untried & (self.untried - 1),  # 0b0110 -> 0b0100
            choice=jnp.where(worth > self.best, self.next, self.choice),
            best=jnp.maximum(worth, self.best),
            attempts=self.attempts + 1,
            values=values,
        )

    @property
    def next(self) -> Int32[Array, ""]:
        """The action to simulate next, if any is left."""
        return nth_bit(self.untried, jnp.int32(0))


def decide(
    config: GameConfig,
    position: Position,
    legal: Legal,
    weights: EvaluationWeights,
    *,
    chance: Chance,
) -> Decision:
    """A decision among `legal` actions, other than UNDO; use `jax.vmap` for a batch.

    Unlike `imagine`, its loop only reads the position. Every iteration has its part of `chance`.
    """
    start = Decision(
        untried=bits_of_actions(legal),
        choice=jnp.int32(0),
        best=jnp.float32(NOTHING),
        attempts=jnp.int32(0),
        values=jnp.full(NUM_ACTIONS, NOTHING),
    )

    def goes_on(decision: Decision, given: Any) -> Bool[Array, ""]:
        return decision.untried != 0

    def one(decision: Decision, given: tuple[Position, EvaluationWeights, Chance]) -> Decision:
        position, weights, chance = given
        chance = chance.fold_in(decision.attempts)
        after, event = attempt(position, decision.next, chance=chance)
        return decision.tried(evaluate_result(config, after, event, weights))

    return _in_rounds(goes_on, one, start, (position, weights, chance))


class Imagined(eqx.Module):
    """An imagined game."""

    position: Position  #: The current position.
    decision: Decision  #: The next move is its choice, once nothing is `untried`.
    moves_left: Int32[Array, ""]  #: Most moves that are still to play.
    moves: Int32[Array, ""]  #: Number of moves played.
    worth: Float32[Array, ""]  #: The value of the last move's result.
    completed: Bool[Array, ""]  #: Whether the last move completed the stage, which ends the game.
    won: Bool[Array, ""]  #: Whether that was the last stage.

    @property
    def died(self) -> Bool[Array, ""]:
        """Whether the player has no hp left."""
        return self.position.player.hp == 0


def playing(position: Position, action: Int32[Array, ""], moves: Int32[Array, ""]) -> Imagined:
    """A game that begins with an action, not UNDO, and has at most `moves` moves.

    These include the first one, and a decision follows the last. With 0, nothing is played.
    """
    no, zero, nothing = jnp.bool_(False), jnp.int32(0), jnp.float32(NOTHING)
    return Imagined(
        position=position,
        decision=Decision(untried=jnp.uint32(0), choice=action, best=nothing, attempts=zero),
        moves_left=moves,
        moves=zero,
        worth=nothing,
        completed=no,
        won=no,
    )


def imagine(
    config: GameConfig, game: Imagined, weights: EvaluationWeights, *, chance: Chance
) -> Imagined:
    """Plays an imagined game until it ends or has no moves left; use `jax.vmap` for a batch.

    Each move has the best heuristic value by `weights`. Every iteration has its part of `chance`.
    """

    def goes_on(game: Imagined, given: Any) -> Bool[Array, ""]:
        return (game.decision.untried != 0) | (game.moves_left > 0)

    def one(game: Imagined, given: tuple[EvaluationWeights, Chance]) -> Imagined:
        weights, chance = given
        decision = game.decision
        trying = decision.untried != 0
        action = jnp.where(trying, decision.next, decision.choice)
        after, event = attempt(game.position, action, chance=chance.fold_in(decision.attempts))
        worth = evaluate_result(config, after, event, weights)
        tried = replace(game, decision=decision.tried(worth))
        return select(trying, tried, _played(game, after, event, worth))

    return _in_rounds(goes_on, one, game, (weights, chance))


def _in_rounds(
    goes_on: Callable[[Carry, Any], Bool[Array, ""]],
    one: Callable[[Carry, Any], Carry],
    start: Carry,
    given: Any,
) -> Carry:
    """`jax.lax.while_loop` that in a batch computes few iterations for games that are finished."""

    def some(carry: Carry, given: Any) -> Carry:
        def step(_: Array, carry: Carry) -> Carry:
            return select(goes_on(carry, given), one(carry, given), carry)

        return jax.lax.fori_loop(0, _ROUNDS, step, carry)

    return one_round_loop(goes_on, some, start, given, share=_SHARE, least=_LEAST)


_ROUNDS, _SHARE, _LEAST = 4, 8, 256
"""Iterations between two checks of which games are still running; the width of the loop's buffer:
1/8 of the games, at least 256."""


def _played(game: Imagined, after: Position, event: Event, worth: Value) -> Imagined:
    # UNDO is not simulated: imagined games have no history.
    legal = bits_of_actions(allowed(after, can_undo=jnp.bool_(False)))
    over = event.completed | event.died
    untried = jnp.where(over, jnp.uint32(0), legal)
    decision = replace(
        game.decision,
        untried=untried,
        best=jnp.float32(NOTHING),
        attempts=game.decision.attempts + 1,
    )
    return replace(
        game,
        position=after,
        decision=decision,
        moves_left=jnp.where(untried == 0, 0, game.moves_left - 1),
        moves=game.moves + 1,
        worth=worth,
        completed=event.completed,
        won=event.won,
    )


def bits_of_actions(legal: Legal) -> UInt32[Array, ""]:
    """Packs actions into the bits of one word: `[0 1 1 0] -> 0b0110`."""
    bits = np.uint32(1) << np.arange(NUM_ACTIONS, dtype=np.uint32)
    return union(jnp.where(legal, bits, jnp.uint32(0)))
