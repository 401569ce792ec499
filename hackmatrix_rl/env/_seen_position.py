"""A position as a player sees it, so that functions of a position can read an observation."""

import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.env._observation import CELL, Number, Sight
from hackmatrix_rl.env._tactical_observation import Memory, TacticalObservation
from hackmatrix_rl.game import (
    NUM_CELLS,
    SIZE,
    Board,
    CellSet,
    Enemies,
    Player,
    Position,
    Transmissions,
)

_BOARD = np.uint32(sum(field.mask for field in Board.FIELDS.values()))


def seen_position(seen: TacticalObservation) -> Position:
    """The position that one observation shows.

    What a player does not see is missing or a guess: hidden cryptogs, and all but the first enemy
    of a cell, are missing. A question block is a hidden data block without points and with one
    spawn. A transmission of unknown type is a virus. No enemy is disabled. The slots are the cells:
    the enemies stand in the order of cells, not of arrival.

    Args:
        seen: one observation.
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
    # A `Sight` has one number for both kinds of question block, a `Content` two.
    content = jnp.where(sight > Sight.QUESTION, sight + 1, sight)
    board = Board(seen.grid & _BOARD)
    # The screen marks only blocks as siphoned. But each siphon reached the cross of its center.
    centers = CellSet.from_array(board.siphon_center)
    siphoned = board.siphoned | (centers | centers.neighbours()).to_array()
    board = board.replace(content=content, siphoned=siphoned)
    return board.replace(sight == Sight.QUESTION, spawn_count=1)


_CELLS = np.arange(NUM_CELLS, dtype=np.int32)


def _enemies(seen: TacticalObservation) -> Enemies:
    kind = seen.plane("enemy")
    present = kind > 0
    return Enemies.of(
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
    return Transmissions.of(
        type=jnp.maximum(kind - 1, 0), cell=_CELLS, turns_remaining=turns, present=turns > 0
    )
