"""The reward of an action (rules, section 9): the inputs of its terms, and their values."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.games.hackmatrix._board import CellSet, path_length
from hackmatrix_rl.games.hackmatrix._reward_config import TERM_NAMES, TERMS
from hackmatrix_rl.games.hackmatrix._state import Position


class RewardTerms(eqx.Module):
    """The terms of the reward of one action: a field per term, in the order of the rules."""

    __annotations__ = dict.fromkeys(TERM_NAMES, Float32[Array, "*batch"])

    if TYPE_CHECKING:

        def __init__(self, *terms: Array, **named: Array) -> None: ...
        def __getattr__(self, name: str) -> Float32[Array, "*batch"]: ...

    def as_dict(self) -> dict[str, Float32[Array, "*batch"]]:
        """The terms by name."""
        return {name: getattr(self, name) for name in TERM_NAMES}

    def as_array(self) -> Float32[Array, "*batch terms"]:
        """The terms, stacked along the last axis."""
        return jnp.stack(list(self.as_dict().values()), axis=-1)

    def total(self) -> Float32[Array, "*batch"]:
        """The reward: the sum of the terms."""
        terms = list(self.as_dict().values())
        return sum(terms, start=jnp.zeros_like(terms[0]))


class Event(eqx.Module):
    """The results of an action, besides the new position."""

    kills: Int32[Array, ""]  #: Number of kills that count.
    collected: Bool[Array, ""]  #: Whether the player walked onto a data-siphon pickup.
    completed: Bool[Array, ""]  #: Whether the stage was completed.
    won: Bool[Array, ""]  #: Whether stage 8 was completed.
    died: Bool[Array, ""]  #: Whether hp is 0 after the action.
    ends_turn: Bool[Array, ""]  #: Whether the enemy turn follows.
    popped: Bool[Array, ""]  #: Whether UNDO took a snapshot off the history.
    quality: Float32[Array, ""]  #: The term `siphon_quality`.
    waste: Float32[Array, ""]  #: The term `program_waste`.


class Move(eqx.Module):
    """A legal action and its results: the input of each term of the reward."""

    before: Position
    after: Position
    event: Event
    nearer: Int32[Array, ""]  #: Decrease of the distance to the exit, at least 0.
    hunted: Bool[Array, ""]  #: Whether an enemy that a siphon spawned is adjacent to the player.

    @staticmethod
    def real(value: Array | float) -> Float32[Array, ""]:
        """A number in float32."""
        return value.astype(jnp.float32) if isinstance(value, jax.Array) else jnp.float32(value)

    @staticmethod
    def if_(condition: Bool[Array, ""], value: Float32[Array, ""] | float) -> Float32[Array, ""]:
        """The value if the condition holds, else 0."""
        return jnp.where(condition, value, jnp.float32(0))

    @staticmethod
    def positive(value: Int32[Array, ""]) -> Int32[Array, ""]:
        """The value, at least 0."""
        return jnp.maximum(value, 0)

    @staticmethod
    def of_stage(table: np.ndarray, stage: Int32[Array, ""]) -> Float32[Array, ""]:
        """The entry of a stage, counted from 1."""
        return jnp.asarray(table)[stage - 1]


def reward_terms(before: Position, after: Position, event: Event) -> RewardTerms:
    """The terms of a legal action."""
    nearer = distance_to_exit(before) - jnp.where(event.completed, 0, distance_to_exit(after))
    hunters = after.enemies.present & after.enemies.spawned_from_siphon
    adjacent = CellSet.from_cell(after.player.cell).neighbours().has(after.enemies.cell)
    hunted = (hunters & adjacent).any()
    move = Move(before, after, event, nearer=jnp.maximum(nearer, 0), hunted=hunted)
    return RewardTerms(**{name: each.value(move) for name, each in TERMS.items()})


def distance_to_exit(position: Position) -> Int32[Array, ""]:
    """Steps from the player to the exit around blocks; 0 without a path."""
    return path_length(position.player.cell, position.exit_cell, position.board.blocks)
