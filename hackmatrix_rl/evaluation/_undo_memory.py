"""A memory of undone actions, with which greedy play does not repeat them."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int8, Int32, PyTree

from hackmatrix_rl.env import CompactObservation, Environment, HackMatrix, Number
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, Action

TURNS = 64
"""Number of remembered turns; UNDO goes back by fewer (`GameConfig.history`)."""

LARGEST = 127
"""Counts saturate at the largest int8."""


class Undone(NamedTuple):
    """The memory of one game. Turn `t` has row `t % TURNS`."""

    #: How often UNDO reverted each action in this stage.
    counts: Int8[Array, "turns num_actions"]
    #: The actions that led from each turn to the current position.
    line: Bool[Array, "turns num_actions"]
    stage: Int32[Array, ""]  #: The stage of the last move; -1 before the first one.
    turn: Int32[Array, ""]  #: The turn of the last move.
    newest: Int32[Array, ""]  #: The latest turn of the stage so far.
    action: Int32[Array, ""]  #: The last move.


class UndoMemory(eqx.Module):
    """Makes actions that UNDO reverted less likely for the rest of the stage.

    After UNDO, HackMatrix is in an earlier position. A greedy network without memory would repeat
    its action there, and revert it again.
    """

    #: Nats to subtract from an action's logit each time that UNDO reverts it on a turn.
    cost: float = eqx.field(static=True, default=3.0)

    @classmethod
    def for_environment(cls, environment: Environment) -> "UndoMemory | None":
        """The memory for an environment; `None` without UNDO or without an observed turn."""
        seen = isinstance(environment, HackMatrix) and environment.observation != "classic"
        return cls() if seen else None

    def initial(self) -> Undone:
        """The memory at the start of a game."""
        none = jnp.int32(-1)
        return Undone(
            counts=jnp.zeros((TURNS, NUM_ACTIONS), jnp.int8),
            line=jnp.zeros((TURNS, NUM_ACTIONS), bool),
            stage=none,
            turn=none,
            newest=none,
            action=none,
        )

    def arrive(
        self, undone: Undone, observation: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Undone]:
        """The costs to subtract from the logits, and the memory after an observation."""
        assert isinstance(observation, CompactObservation)
        turn = observation.numbers[Number.TURN]
        stage = observation.numbers[Number.STAGE]
        row = turn % TURNS
        back = undone.action == Action.UNDO
        new_stage = (stage != undone.stage) & ~back
        counts = jnp.where(new_stage, jnp.int8(0), undone.counts)
        line = undone.line & ~new_stage
        newest = jnp.where(new_stage, -1, undone.newest)
        # A revisited turn keeps its counts, whichever actions lead to it.
        here = jnp.where(turn > newest, jnp.int8(0), counts[row])
        here += (back & line[row] & (here < LARGEST)).astype(jnp.int8)
        played = line[row] & ~back & (turn == undone.turn)
        return self.cost * here.astype(jnp.float32), Undone(
            counts=counts.at[row].set(here),
            line=line.at[row].set(played),
            stage=stage,
            turn=turn,
            newest=jnp.maximum(newest, turn),
            action=undone.action,
        )

    def leave(self, undone: Undone, action: Int32[Array, ""]) -> Undone:
        """The memory after a move."""
        row = undone.turn % TURNS
        line = undone.line.at[row, action].max(action != Action.UNDO)
        return undone._replace(line=line, action=action)
