"""The player's actions (rules, section 4)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Key

from hackmatrix_rl.game import sparse
from hackmatrix_rl.game.board import NUM_DIRECTIONS, SIZE, step_from
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.damage import hit
from hackmatrix_rl.game.effects import Given
from hackmatrix_rl.game.history import newest
from hackmatrix_rl.game.programs import Program, run_program, usable_programs
from hackmatrix_rl.game.rewards import Event
from hackmatrix_rl.game.siphon import siphon, siphon_quality
from hackmatrix_rl.game.state import (
    LAST_STAGE,
    MAX_HP,
    NUM_PROGRAMS,
    Content,
    Position,
    State,
    first,
    of_chosen,
    select,
)
from hackmatrix_rl.game.view import View

SIPHON = NUM_DIRECTIONS
FIRST_PROGRAM = SIPHON + 1
NUM_ACTIONS = FIRST_PROGRAM + NUM_PROGRAMS

PROGRAM_WASTE = -0.3


def legal_actions(config: GameConfig, state: State) -> Bool[Array, "28"]:
    """The mask: which of the 28 actions are legal.

    Args:
        config: the game's capacities.
        state: one game; use `jax.vmap` for several.
    """
    position = state.position
    view = View.of(position, can_undo=state.history.count > 0)
    cells, inside = step_from(position.player.cell, jnp.arange(NUM_DIRECTIONS, dtype=jnp.int8))
    walkable = inside & (~view.blocks | view.enemies).has(cells)
    siphons = position.player.data_siphons > 0
    return jnp.concatenate([walkable, siphons[None], usable_programs(view)])


def is_legal(mask: Bool[Array, "28"], action: Int32[Array, ""]) -> Bool[Array, ""]:
    """Whether the mask allows the action; a number that is no action is never legal."""
    return (mask & (np.arange(NUM_ACTIONS) == action)).any()


def apply_action(
    state: State, action: Int32[Array, ""], legal: Bool[Array, ""], *, key: Key[Array, ""]
) -> tuple[Position, Event]:
    """Sections 4 and 6: what the action itself does, before stage set-up and enemy turn.

    Args:
        state: one game.
        action: 0..27.
        legal: whether it is legal; the result means nothing where it is not.
        key: source of chance.
    """
    position = state.position
    moves = legal & (action < SIPHON)
    siphons = legal & (action == SIPHON)
    runs = legal & (action >= FIRST_PROGRAM)
    program = jnp.clip(action - FIRST_PROGRAM, 0, NUM_PROGRAMS - 1)

    moved, kills, collected, at_exit = move(position, action)
    after = select(moves, moved, position)
    kills = jnp.where(moves, kills, 0)

    after, quality = sparse.apply_if(
        siphons,
        lambda value, _: (siphon(value[0]), siphon_quality(value[0])),
        (after, jnp.float32(0)),
        (),
        share=16,
    )
    after, kills = sparse.apply_if(
        runs,
        lambda value, given: run_program(value[0], given[0], given[1]),
        (after, kills),
        (program, Given(key=key, snapshot=newest(state.history))),
        share=8,
    )

    waits = runs & (program == Program.WAIT)
    warps = runs & (program == Program.WARP)
    wasted = runs & (program == Program.RESET) & (position.player.hp == MAX_HP - 1)
    completed = (moves & at_exit) | (warps & (after.player.cell == after.exit_cell))
    event = Event(
        kills=kills,
        collected=moves & collected,
        completed=completed,
        won=completed & (position.stage == LAST_STAGE),
        died=jnp.bool_(False),
        ends_turn=(moves & ~completed) | siphons | waits,
        popped=runs & (program == Program.UNDO),
        quality=quality,
        waste=jnp.where(wasted, jnp.float32(PROGRAM_WASTE), jnp.float32(0)),
    )
    return after, event


def move(
    position: Position, direction: Int32[Array, ""]
) -> tuple[Position, Int32[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """A direction: an attack along the line, or a step.

    Returns:
        The position after, the kills that count, whether a pickup was collected, and whether
        the player stepped onto an exit.
    """
    player, enemies, transmissions = position.player, position.enemies, position.transmissions
    target, shoots, at_transmission = look(position, direction.astype(jnp.int8))

    victim = first(enemies.present & (enemies.cell == target))
    strength = jnp.minimum(player.attack_damage, 127).astype(jnp.int8)
    shot = victim & shoots & ~at_transmission
    enemies, kills = hit(enemies, jnp.where(shot, strength, jnp.int8(0)))
    cut = first(transmissions.present & (transmissions.cell == target)) & at_transmission
    kills = kills + jnp.sum(cut & ~transmissions.from_scheduled_task, dtype=jnp.int32)
    transmissions = replace(transmissions, present=transmissions.present & ~cut)

    cell, _ = step_from(player.cell, direction.astype(jnp.int8))
    cell = jnp.where(shoots, player.cell, cell)
    here = jnp.arange(SIZE * SIZE, dtype=jnp.int8) == cell
    content = of_chosen(here, position.board.content)
    collected = ~shoots & (content == Content.PICKUP)
    player = replace(
        player, cell=cell, data_siphons=player.data_siphons + collected.astype(jnp.int32)
    )
    emptied = jnp.where(here & collected, jnp.int8(Content.EMPTY), position.board.content)
    after = replace(
        position,
        player=player,
        enemies=enemies,
        transmissions=transmissions,
        board=replace(position.board, content=emptied),
    )
    return after, kills, collected, ~shoots & (content == Content.EXIT)


def look(
    position: Position, direction: Int8[Array, ""]
) -> tuple[Int8[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """The first target along a direction.

    Returns:
        Its cell (-1 if there is none), whether there is one, and whether it is a transmission.
    """
    transmissions = position.transmissions.cells
    targets = transmissions | position.enemies.cells
    blocks = position.board.blocks
    Carry = tuple[Int8[Array, ""], Int8[Array, ""], Bool[Array, ""]]

    def look_further(_: Int32[Array, ""], carry: Carry) -> Carry:
        cell, target, looking = carry
        cell, inside = step_from(cell, direction)
        looking = looking & inside
        seen = looking & targets.has(cell)
        return cell, jnp.where(seen, cell, target), looking & ~seen & ~blocks.has(cell)

    start = (position.player.cell, jnp.int8(-1), jnp.bool_(True))
    _, target, _ = jax.lax.fori_loop(0, SIZE - 1, look_further, start)
    return target, target >= 0, (target >= 0) & transmissions.has(target)
