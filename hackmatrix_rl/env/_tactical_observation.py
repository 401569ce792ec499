"""The knowledge of a player who remembers the game, besides the screen.

`TacticalObservation` adds a few integers to the compact observation: what UNDO would bring back,
and the clock of the enemies to come. `env/_tactical_encoding.py` computes a network's input.
"""

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Int32

from hackmatrix_rl.env._observation import CompactObservation, compact_observation
from hackmatrix_rl.game import History, Position, Program, recall

MOST_SNAPSHOTS = 15
"""`Memory.SNAPSHOTS` counts no further."""


class Memory(IntEnum):
    """Indices of `TacticalObservation.memory`.

    The newest snapshot shows the end of the last enemy turn, so one UNDO takes back the programs
    played since then; the second one takes back the turn. Their numbers are 0 where there is no
    such snapshot.
    """

    NEWEST_HP = 0
    NEWEST_CREDITS = 1
    NEWEST_OWNS_UNDO = 2
    SECOND_HP = 3
    SECOND_CREDITS = 4
    SECOND_OWNS_UNDO = 5
    SNAPSHOTS = 6
    TURNS_TO_TASK = 7
    TASK_INTERVAL = 8
    PENDING_TRANSMISSIONS = 9
    STEP_ACTIVE = 10
    ATK_PLUS_USES = 11


class TacticalObservation(CompactObservation):
    """The compact observation, and what a player remembers.

    Attributes:
        memory: one unscaled number for each `Memory`.
    """

    memory: Int32[Array, "*batch memories"]


def recollection(history: History) -> Int32[Array, "7"]:
    """The numbers of `Memory` up to `SNAPSHOTS`, for one game."""
    numbers: list[Array] = []
    for back in (0, 1):
        past = recall(history, back=back)
        owns_undo = ((past.programs >> Program.UNDO) & 1).astype(jnp.int32)
        numbers += [past.player.hp, past.player.credits, owns_undo]
    return jnp.stack([*numbers, jnp.minimum(history.count, MOST_SNAPSHOTS)])


def supposed_recollection(position: Position, *, rewind_across_stages: bool) -> Int32[Array, "7"]:
    """`recollection` where no history is known: both newest snapshots show what the player has.

    Args:
        position: one position.
        rewind_across_stages: whether snapshots of the stage before still count at its start.
    """
    player, owned = position.player, ((position.programs >> Program.UNDO) & 1).astype(jnp.int32)
    past = [player.hp, player.credits, owned]
    some = jnp.stack([*past, *past, jnp.int32(2)])
    return some if rewind_across_stages else jnp.where(position.turn == 0, 0, some)


def tactical_observation(
    position: Position, recalled: Int32[Array, "7"], *, is_rare: bool = False
) -> TacticalObservation:
    """The tactical observation of one position.

    Args:
        position: one position.
        recalled: the result of `recollection` of its history.
        is_rare: see `compact_observation`.
    """
    seen = compact_observation(position, is_rare=is_rare)
    clock = [
        position.next_scheduled_task_turn - position.turn,
        position.scheduled_task_interval,
        position.pending_siphon_transmissions,
        position.step_active.astype(jnp.int32),
        position.atk_plus_uses_this_stage,
    ]
    return TacticalObservation(
        numbers=seen.numbers,
        programs=seen.programs,
        grid=seen.grid,
        memory=jnp.concatenate([recalled, jnp.stack(clock)]),
    )
