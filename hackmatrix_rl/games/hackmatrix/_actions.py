"""The player's actions (rules, section 4)."""

from dataclasses import replace
from enum import IntEnum

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from hackmatrix_rl.games.hackmatrix._board import (
    NUM_CELLS,
    NUM_DIRECTIONS,
    SIZE,
    CellSet,
    Direction,
    step_from,
)
from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._effects import View
from hackmatrix_rl.games.hackmatrix._history import newest
from hackmatrix_rl.games.hackmatrix._programs import run_program, usable_programs
from hackmatrix_rl.games.hackmatrix._rewards import Event
from hackmatrix_rl.games.hackmatrix._siphon import siphon, siphon_quality
from hackmatrix_rl.games.hackmatrix._slots import cut, strike
from hackmatrix_rl.games.hackmatrix._state import (
    LAST_STAGE,
    MAX_HP,
    NUM_PROGRAMS,
    Content,
    Position,
    Program,
    State,
)
from hackmatrix_rl.games.hackmatrix._validation import check_sizes
from hackmatrix_rl.system.batching import Chance, bits_of, materialize, pick, select, sparse_cond


class Action(IntEnum):
    """The 28 actions in the order of the mask: four moves, the siphon, the 23 programs.

    The programs are named as in section 6 of the rules. Names that are not identifiers are spelled
    out: `SIPH_PLUS` for SIPH+, `ANTI_V` for ANTI-V, `ATK_PLUS` for ATK+.
    """

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    SIPHON = 4
    PUSH = 5
    PULL = 6
    CRASH = 7
    WARP = 8
    POLY = 9
    WAIT = 10
    DEBUG = 11
    ROW = 12
    COL = 13
    UNDO = 14
    STEP = 15
    SIPH_PLUS = 16
    EXCH = 17
    SHOW = 18
    RESET = 19
    CALM = 20
    D_BOM = 21
    DELAY = 22
    ANTI_V = 23
    SCORE = 24
    REDUC = 25
    ATK_PLUS = 26
    HACK = 27

    @property
    def label(self) -> str:
        """The name in the rules, such as `SIPH+`, `ANTI-V` and `ATK+`."""
        return self.name.replace("_PLUS", "+").replace("ANTI_V", "ANTI-V")


Result = tuple[Position, Int32[Array, ""], Float32[Array, ""]]
"""A position, the kills that count, and the term siphon_quality."""

SIPHON = NUM_DIRECTIONS
FIRST_PROGRAM = SIPHON + 1
NUM_ACTIONS = FIRST_PROGRAM + NUM_PROGRAMS
assert NUM_ACTIONS <= 32, "the mask must fit in one word"

PROGRAM_WASTE = -0.3


def legal_actions(config: GameConfig, state: State) -> Bool[Array, " num_actions"]:
    """The mask: whether each action is legal.

    Args:
        config: sizes and league of the game.
        state: one game; use `jax.vmap` for a batch.

    Raises:
        ValueError: the game has other sizes than `config`.
    """
    check_sizes(config, state)
    return allowed(state.position, can_undo=state.history.count > 0)


def allowed(position: Position, *, can_undo: Bool[Array, ""]) -> Bool[Array, " num_actions"]:
    """The mask of a position. `can_undo` is whether its history holds a snapshot."""
    view = View.from_position(position, can_undo=can_undo)
    open_ = ~view.blocks | view.enemies
    here = CellSet.from_cell(position.player.cell)
    legal = usable_programs(view) << FIRST_PROGRAM
    legal = legal | ((position.player.data_siphons > 0).astype(jnp.uint32) << SIPHON)
    for direction in Direction:
        ahead = (here.shifted(direction) & open_).any()
        legal = legal | (ahead.astype(jnp.uint32) << direction)
    return bits_of(materialize(legal), NUM_ACTIONS)


def is_legal(mask: Bool[Array, " num_actions"], action: Int32[Array, ""]) -> Bool[Array, ""]:
    """Whether an action is legal by the mask. A number that is not an action is illegal."""
    return (mask & (np.arange(NUM_ACTIONS) == action)).any()


def apply_action(
    state: State,
    action: Int32[Array, ""],
    legal: Bool[Array, ""],
    *,
    chance: Chance,
    share: int = 32,
) -> tuple[Position, Event]:
    """The effect of an action, without the enemy turn and stage set-up (sections 4 and 6).

    Siphons and programs are rare in most play. A batch computes them in buffers of its size divided
    by `share`. The result of an illegal action is undefined.
    """
    position = state.position
    moves = legal & (action < SIPHON)
    siphons = legal & (action == SIPHON)
    runs = legal & (action >= FIRST_PROGRAM)
    program = jnp.clip(action - FIRST_PROGRAM, 0, NUM_PROGRAMS - 1)

    after, kills, collected, at_exit = move(position, action, moves)

    after, kills, quality = sparse_cond(
        siphons | runs,
        _siphon_or_run,
        (after, kills, jnp.float32(0)),
        (siphons, program, newest(state.history), chance),
        share=share,
    )

    waits = runs & (program == Program.WAIT)
    warps = runs & (program == Program.WARP)
    wasted = runs & (program == Program.RESET) & (position.player.hp == MAX_HP - 1)
    completed = at_exit | (warps & (after.player.cell == after.exit_cell))
    event = Event(
        kills=kills,
        collected=collected,
        completed=completed,
        won=completed & (position.stage == LAST_STAGE),
        died=jnp.bool_(False),
        ends_turn=(moves & ~completed) | siphons | waits,
        popped=runs & (program == Program.UNDO),
        quality=quality,
        waste=jnp.where(wasted, jnp.float32(PROGRAM_WASTE), jnp.float32(0)),
    )
    return after, event


def _siphon_or_run(
    carry: Result,
    given: tuple[Bool[Array, ""], Int32[Array, ""], UInt32[Array, " snapshot_words"], Chance],
) -> Result:
    """The effect of a siphon or a program. Both are rare, so they share a buffer."""
    position, kills, quality = carry
    siphons, program, snapshot, chance = given
    ran, more = run_program(position, program, snapshot, chance=chance)
    return (
        select(siphons, siphon(position), ran),
        jnp.where(siphons, kills, more),
        jnp.where(siphons, siphon_quality(position), quality),
    )


def move(
    position: Position, direction: Int32[Array, ""], takes_place: Bool[Array, ""]
) -> tuple[Position, Int32[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """A direction: an attack along the line, or a step. A no-op unless `takes_place`.

    Also returns the kills that count, whether the player collected a pickup, and whether the player
    reached the exit.
    """
    player, enemies, transmissions = position.player, position.enemies, position.transmissions
    target, at_transmission = look(position, direction)
    target = jnp.where(takes_place, target, -1)
    walks = takes_place & (target < 0)

    enemies, kills = strike(enemies, jnp.where(at_transmission, -1, target), player.attack_damage)
    transmissions, more = cut(transmissions, jnp.where(at_transmission, target, -1))

    step, _ = step_from(player.cell, direction)
    cell = jnp.where(walks, player.cell + step, player.cell)
    here = np.arange(NUM_CELLS) == cell
    content = pick(here, position.board.content)
    collected = walks & (content == Content.PICKUP)
    player = replace(
        player, cell=cell, data_siphons=player.data_siphons + collected.astype(jnp.int32)
    )
    after = replace(
        position,
        player=player,
        enemies=enemies,
        transmissions=transmissions,
        board=position.board.replace(here & collected, content=Content.EMPTY),
    )
    return after, kills + more, collected, walks & (content == Content.EXIT)


def look(
    position: Position, direction: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """The cell of the target in a direction, or -1, and whether it is a transmission."""
    transmissions = position.transmissions.cells
    targets = transmissions | position.enemies.cells
    blocks = position.board.blocks
    cell, target, looking = position.player.cell, jnp.int32(-1), jnp.bool_(True)
    step, room = step_from(cell, direction)
    for number in range(SIZE - 1):
        cell = cell + step
        looking = looking & (number < room)
        seen = looking & targets.has(cell)
        target = jnp.where(seen, cell, target)
        looking = looking & ~seen & ~blocks.has(cell)
    target = materialize(target)
    return target, transmissions.has(target)
