"""The tactical observation: the compact one, and what a player remembers of the game.

`TacticalObservation` adds a few integers: what UNDO would restore, and the schedule of enemies.
`_tactical_encoding.py` computes the input of a network from it.
"""

from enum import IntEnum

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PyTree

from hackmatrix_rl.env._observation import (
    CELL,
    CompactObservation,
    Number,
    Sight,
    compact_observation,
)
from hackmatrix_rl.games.hackmatrix import (
    NUM_CELLS,
    SIZE,
    Board,
    CellSet,
    Enemies,
    History,
    Player,
    Position,
    Program,
    Transmissions,
    recall,
)

MOST_SNAPSHOTS = 15
"""The maximum of `Memory.SNAPSHOTS`."""


class Memory(IntEnum):
    """Indices of `TacticalObservation.memory`.

    The newest snapshot is of the end of the last enemy turn, so one UNDO reverts the programs
    played since then, and a second one reverts the turn. The numbers of a missing snapshot are 0.
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
    """The compact observation, and what a player remembers."""

    memory: Int32[Array, "*batch memories"]  #: Unscaled, indexed by `Memory`.
    #: The `Knowledge` computed from the other fields, or `None` before it is computed.
    known: PyTree[Array] = None


def recollection(history: History) -> Int32[Array, "7"]:
    """The numbers of `Memory` up to `SNAPSHOTS`."""
    numbers: list[Array] = []
    for back in (0, 1):
        past = recall(history, back=back)
        owns_undo = ((past.programs >> Program.UNDO) & 1).astype(jnp.int32)
        numbers += [past.player.hp, past.player.credits, owns_undo]
    return jnp.stack([*numbers, jnp.minimum(history.count, MOST_SNAPSHOTS)])


def supposed_recollection(position: Position, *, rewind_across_stages: bool) -> Int32[Array, "7"]:
    """`recollection` for an unknown history: both newest snapshots equal the current position."""
    player, owned = position.player, ((position.programs >> Program.UNDO) & 1).astype(jnp.int32)
    past = [player.hp, player.credits, owned]
    some = jnp.stack([*past, *past, jnp.int32(2)])
    return some if rewind_across_stages else jnp.where(position.turn == 0, 0, some)


def tactical_observation(
    position: Position, recalled: Int32[Array, "7"], *, is_rare: bool = False
) -> TacticalObservation:
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


_BOARD = np.uint32(sum(field.mask for field in Board.FIELDS.values()))


def seen_position(seen: TacticalObservation) -> Position:
    """The position that one observation shows.

    What a player does not see is missing or a guess. Hidden cryptogs, and all but the first enemy
    and transmission of a cell, are missing. A question block becomes a hidden data block with 0
    points and `spawn_count` 1. A transmission of unknown type becomes a virus. No enemy is
    disabled. There is a slot per cell, so the order is by cell, not by arrival.
    """
    number = dict(zip(Number, seen.numbers, strict=True))
    memory = dict(zip(Memory, seen.memory, strict=True))
    player = Player(
        cell=number[Number.ROW] * SIZE + number[Number.COL],
        hp=number[Number.HP],
        credits=number[Number.CREDITS],
        energy=number[Number.ENERGY],
        data_siphons=number[Number.DATA_SIPHONS],
        score=number[Number.SCORE],
        attack_damage=number[Number.ATTACK_DAMAGE],
    )
    exit_cell = jnp.argmax(seen.plane("content") == Sight.EXIT).astype(jnp.int32)
    return Position(
        player=player,
        board=_board(seen),
        enemies=_enemies(seen),
        transmissions=_transmissions(seen),
        programs=seen.programs,
        stage=number[Number.STAGE],
        turn=number[Number.TURN],
        exit_cell=exit_cell,
        show_activated=number[Number.SHOW_ACTIVATED] > 0,
        scheduled_tasks_disabled=number[Number.SCHEDULED_TASKS_DISABLED] > 0,
        step_active=memory[Memory.STEP_ACTIVE] > 0,
        atk_plus_uses_this_stage=memory[Memory.ATK_PLUS_USES],
        scheduled_task_interval=memory[Memory.TASK_INTERVAL],
        next_scheduled_task_turn=number[Number.TURN] + memory[Memory.TURNS_TO_TASK],
        pending_siphon_transmissions=memory[Memory.PENDING_TRANSMISSIONS],
        dropped=jnp.int32(0),
    )


def _board(seen: TacticalObservation) -> Board:
    sight = seen.plane("content")
    # `Sight` has one number for both kinds of question block, `Content` has two.
    content = jnp.where(sight > Sight.QUESTION, sight + 1, sight)
    board = Board(seen.grid & _BOARD)
    # The screen marks only blocks as siphoned. But a siphon reached the full cross of its center.
    centers = CellSet.from_array(board.siphon_center)
    siphoned = board.siphoned | (centers | centers.neighbours()).to_array()
    board = board.replace(content=content, siphoned=siphoned)
    return board.replace(sight == Sight.QUESTION, spawn_count=1)


_CELLS = np.arange(NUM_CELLS, dtype=np.int32)


def _enemies(seen: TacticalObservation) -> Enemies:
    kind = seen.plane("enemy")
    present = kind > 0
    return Enemies.from_fields(
        type=jnp.where(present, kind - 1, 0),
        cell=_CELLS,
        hp=seen.plane("enemy_hp"),
        stunned=seen.plane("enemy_stunned"),
        last_known=_CELLS,
        spawned_from_siphon=seen.plane("enemy_from_siphon"),
        present=present,
    )


def _transmissions(seen: TacticalObservation) -> Transmissions:
    turns, kind = CELL["transmission"].read(seen.grid), seen.plane("transmission_type")
    return Transmissions.from_fields(
        type=jnp.maximum(kind - 1, 0), cell=_CELLS, turns_remaining=turns, present=turns > 0
    )
