"""The reward (rules, section 9), and the weights with which an agent learns from it."""

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import no_type_check

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.game._board import CellSet, path_length
from hackmatrix_rl.game._state import LAST_STAGE, Position

STAGE_COMPLETION = np.array([1, 2, 4, 8, 16, 32, 64, 100], np.float32)
"""The term for completing each stage, 1 to 8."""
KILL_REWARD = 0.3
"""The term for each kill that counts."""
_DEATH_PENALTY = np.array(
    [-0.5 * STAGE_COMPLETION[: stage - 1].sum() for stage in range(1, LAST_STAGE + 1)], np.float32
)


class RewardTerms(eqx.Module):
    """The terms of the reward of one action, in the order of the rules."""

    step_penalty: Float32[Array, "*batch"]
    stage_completion: Float32[Array, "*batch"]
    score_gain: Float32[Array, "*batch"]
    kills: Float32[Array, "*batch"]
    data_siphon: Float32[Array, "*batch"]
    distance_shaping: Float32[Array, "*batch"]
    victory: Float32[Array, "*batch"]
    death_penalty: Float32[Array, "*batch"]
    resource_gain: Float32[Array, "*batch"]
    resource_holding: Float32[Array, "*batch"]
    damage_penalty: Float32[Array, "*batch"]
    hp_recovery: Float32[Array, "*batch"]
    siphon_quality: Float32[Array, "*batch"]
    program_waste: Float32[Array, "*batch"]
    siphon_death_penalty: Float32[Array, "*batch"]

    def as_dict(self) -> dict[str, Float32[Array, "*batch"]]:
        """The terms by name."""
        return {name: getattr(self, name) for name in TERM_NAMES}

    def as_array(self) -> Float32[Array, "*batch 15"]:
        """The terms, stacked along a last axis."""
        return jnp.stack(list(self.as_dict().values()), axis=-1)

    def total(self) -> Float32[Array, "*batch"]:
        """The reward: the sum of the terms."""
        return sum(self.as_dict().values(), start=jnp.zeros_like(self.step_penalty))


TERM_NAMES = tuple(field.name for field in fields(RewardTerms))


class Event(eqx.Module):
    """The results of an action, besides the new position."""

    kills: Int32[Array, ""]  #: Number of kills that count.
    collected: Bool[Array, ""]  #: Whether the player walked onto a data-siphon pickup.
    completed: Bool[Array, ""]  #: Whether the stage was completed.
    won: Bool[Array, ""]  #: Whether it was the last stage.
    died: Bool[Array, ""]  #: Whether hp is 0 at the end of the action.
    ends_turn: Bool[Array, ""]  #: Whether the enemy turn follows.
    popped: Bool[Array, ""]  #: Whether UNDO took a snapshot off the history.
    quality: Float32[Array, ""]  #: The term siphon_quality.
    waste: Float32[Array, ""]  #: The term program_waste.


def reward_terms(before: Position, after: Position, event: Event) -> RewardTerms:
    """The terms of a legal action that led from one position to another."""

    def real(value: Int32[Array, ""]) -> Float32[Array, ""]:
        return value.astype(jnp.float32)

    def if_(condition: Bool[Array, ""], value: Float32[Array, ""] | float) -> Float32[Array, ""]:
        return jnp.where(condition, value, jnp.float32(0))

    def resources(position: Position) -> Int32[Array, ""]:
        return position.player.credits + position.player.energy

    old, new = before.player, after.player
    stage = before.stage - 1
    nearer = distance_to_exit(before) - jnp.where(event.completed, 0, distance_to_exit(after))
    hunters = after.enemies.present & after.enemies.spawned_from_siphon
    beside = CellSet.of(new.cell).neighbours().has(after.enemies.cell)
    return RewardTerms(
        step_penalty=jnp.float32(-0.01),
        stage_completion=if_(event.completed, jnp.asarray(STAGE_COMPLETION)[stage]),
        score_gain=0.5 * real(new.score - old.score),
        kills=KILL_REWARD * real(event.kills),
        data_siphon=real(event.collected.astype(jnp.int32)),
        distance_shaping=if_(~event.died, 0.05 * real(jnp.maximum(nearer, 0))),
        victory=if_(event.won, 500 + 100 * real(new.score)),
        death_penalty=if_(event.died, jnp.asarray(_DEATH_PENALTY)[after.stage - 1]),
        resource_gain=0.05 * real(resources(after) - resources(before)),
        resource_holding=if_(event.completed, 0.01 * real(resources(after))),
        damage_penalty=-real(jnp.maximum(old.hp - new.hp, 0)),
        hp_recovery=real(jnp.maximum(new.hp - old.hp, 0)),
        siphon_quality=event.quality,
        program_waste=event.waste,
        siphon_death_penalty=if_(event.died & (hunters & beside).any(), -10.0),
    )


def distance_to_exit(position: Position) -> Int32[Array, ""]:
    """Steps from the player to the exit around blocks; 0 if there is no path."""
    return path_length(position.player.cell, position.exit_cell, position.board.blocks)


MOST_WEIGHT = 1e6
"""The largest absolute value of a weight. With it, returns stay far below float32's largest."""


@no_type_check  # no check at run time: the class checks its types, with messages for users
@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """A weight for each of the 15 terms of the reward (rules, section 9).

    The agent learns from the weighted sum of the terms. The reported return stays the game's own,
    in which every weight is 1. Each weight is 1 by default.

    Attributes:
        step_penalty: weight of the term `step_penalty`.
        stage_completion: weight of the term `stage_completion`.
        score_gain: weight of the term `score_gain`.
        kills: weight of the term `kills`.
        data_siphon: weight of the term `data_siphon`.
        distance_shaping: weight of the term `distance_shaping`.
        victory: weight of the term `victory`.
        death_penalty: weight of the term `death_penalty`.
        resource_gain: weight of the term `resource_gain`.
        resource_holding: weight of the term `resource_holding`.
        damage_penalty: weight of the term `damage_penalty`.
        hp_recovery: weight of the term `hp_recovery`.
        siphon_quality: weight of the term `siphon_quality`.
        program_waste: weight of the term `program_waste`.
        siphon_death_penalty: weight of the term `siphon_death_penalty`.

    Raises:
        TypeError: a weight is not a number.
        ValueError: a weight is not finite, or its absolute value is above 1,000,000.
    """

    step_penalty: float = 1.0
    stage_completion: float = 1.0
    score_gain: float = 1.0
    kills: float = 1.0
    data_siphon: float = 1.0
    distance_shaping: float = 1.0
    victory: float = 1.0
    death_penalty: float = 1.0
    resource_gain: float = 1.0
    resource_holding: float = 1.0
    damage_penalty: float = 1.0
    hp_recovery: float = 1.0
    siphon_quality: float = 1.0
    program_waste: float = 1.0
    siphon_death_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name in TERM_NAMES:
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, Real):
                raise TypeError(f"{name} must be a number, such as 0.5, not {given!r}")
            weight = float(given)
            if not math.isfinite(weight) or abs(weight) > MOST_WEIGHT:
                raise ValueError(
                    f"{name} must be a number from {-MOST_WEIGHT:.0f} to {MOST_WEIGHT:.0f}, not "
                    f"{weight}"
                )
            object.__setattr__(self, name, weight)

    @property
    def is_the_games(self) -> bool:
        """Whether every weight is 1, so the learned reward is the game's own."""
        return self == RewardConfig()

    def changed(self) -> dict[str, float]:
        """The weights that are not 1, by name of the term, in the order of the rules."""
        weights = {name: getattr(self, name) for name in TERM_NAMES}
        return {name: weight for name, weight in weights.items() if weight != 1}

    def weigh(self, terms: RewardTerms) -> Float32[Array, "*batch"]:
        """The reward to learn from: the weighted sum of the terms, of one action or of a batch.

        The sum leaves out a term with weight 0.
        """
        total = jnp.zeros_like(terms.step_penalty)
        for name, term in terms.as_dict().items():
            weight = getattr(self, name)
            if weight:
                total = total + (term if weight == 1 else jnp.float32(weight) * term)
        return total
