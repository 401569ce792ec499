"""The reward (rules, section 9)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.games.hackmatrix._board import CellSet, path_length
from hackmatrix_rl.games.hackmatrix._reward_config import TERM_NAMES
from hackmatrix_rl.games.hackmatrix._state import LAST_STAGE, Position

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


class Event(eqx.Module):
    """The results of an action, except the new position."""

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
    adjacent = CellSet.from_cell(new.cell).neighbours().has(after.enemies.cell)
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
        siphon_death_penalty=if_(event.died & (hunters & adjacent).any(), -10.0),
    )


def distance_to_exit(position: Position) -> Int32[Array, ""]:
    """Steps from the player to the exit around blocks; 0 if there is no path."""
    return path_length(position.player.cell, position.exit_cell, position.board.blocks)
