"""A script that collects points in the last stage, around another player."""

from typing import NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import HackMatrix, compact_observation
from hackmatrix_rl.evaluation import (
    Agent,
    GameAgent,
    StateAgent,
    ThinkingAgent,
    Thought,
    check_player,
)
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    LAST_STAGE,
    NUM_ACTIONS,
    SIPHON,
    UNREACHED,
    CellSet,
    Content,
    Direction,
    GameConfig,
    Position,
    Program,
    State,
    distances,
    first_steps,
    recall,
    siphon_yields,
    yields_of,
)
from hackmatrix_rl.search._expert import UNDO
from hackmatrix_rl.search._imagined import Legal

_SIPH_PLUS = FIRST_PROGRAM + Program.SIPH_PLUS

_QUESTION = 2.5
"""Assumed points of a question block."""
_STEP, _EXIT_STEP, _MOST_EXIT_STEPS = 0.3, 0.5, 10
"""Points that a step to a cross costs, and each of the first steps from there to the exit."""
_LEAST = 2.0
"""The least points of a cross to walk to."""
_LEAST_HP = 2


class _Harvest(NamedTuple):
    """The script's action, or -1, and the actions that would end the stage too early."""

    action: Int32[Array, ""]
    barred: Legal


@final
class Harvester(GameAgent):
    """Wraps a player with a script that collects the points of the last stage.

    A victory pays 500 + 100 x score, but a player that only survives does not collect the points.
    In the last stage, with at least 2 hp, and while no enemy or transmission is in sight, the
    script walks to the cross with the most points, less the cost of the way, and siphons it. It
    fetches a data siphon if it has none. It does not step onto the exit while points are left, and
    does not undo a gain of points with more than 1 hp. Otherwise the wrapped player decides.

    It is a teacher: a network that has imitated it collects points, which PPO can improve.

    Attributes:
        config: sizes and league of the game.
        environment: the environment, which makes the player's observations.
        player: the wrapped player.
    """

    config: GameConfig = eqx.field(static=True)
    environment: HackMatrix
    player: Agent

    def __init__(self, environment: HackMatrix, player: Agent) -> None:
        """Wraps a player in the environment in which it plays.

        Raises:
            TypeError: `player` is no `Agent`.
            ValueError: it cannot play in the environment.
        """
        check_player(player, environment)
        self.config = environment.config
        self.environment = environment
        self.player = player

    def initial_carry(self) -> PyTree[Array]:
        return self.player.initial_carry()

    def think(
        self, observation: PyTree[Array], mask: Legal, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Plays in a `State`; the thought is the wrapped player's."""
        state: State = observation
        harvest = _harvest(state.position, mask)
        allowed = mask & ~harvest.barred & ~_loses_points(state)
        allowed = jnp.where(allowed.any(), allowed, mask)
        read = state if isinstance(self.player, StateAgent) else self.environment.observe(state)
        if isinstance(self.player, ThinkingAgent):
            action, carry, thought = self.player.think(read, allowed, carry, key=key)
        else:
            action, carry = self.player.act(read, allowed, carry, key=key)
            thought = Thought()
        return jnp.where(harvest.action >= 0, harvest.action, action), carry, thought


def _harvest(position: Position, mask: Legal) -> _Harvest:
    player, board = position.player, position.board
    here, at_exit = CellSet.from_cell(player.cell), CellSet.from_cell(position.exit_cell)
    walkable = ~board.blocks - at_exit
    steps = distances(here, walkable)
    from_exit = distances(at_exit, ~board.blocks)

    taken = siphon_yields(yields_of(board))
    points = taken.points.astype(jnp.float32) + _QUESTION * taken.questions.astype(jnp.float32)
    near = jnp.minimum(from_exit, _MOST_EXIT_STEPS).astype(jnp.float32)
    worthy = (walkable | here).to_array() & (steps < UNREACHED) & (points >= _LEAST)
    worth = points - _STEP * steps.astype(jnp.float32) - _EXIT_STEP * near

    pickups = (board.content == Content.PICKUP) & (steps < UNREACHED)
    can_siphon = mask[SIPHON] | mask[_SIPH_PLUS]
    fetches = ~can_siphon & pickups.any()
    worth = jnp.where(fetches, -steps.astype(jnp.float32), worth)
    targets = jnp.where(fetches, pickups, worthy)
    target = jnp.argmax(jnp.where(targets, worth, -jnp.inf)).astype(jnp.int32)

    last = (position.stage == LAST_STAGE) & (player.hp >= _LEAST_HP)
    stays = last & worthy.any() & (can_siphon | fetches)
    seen = compact_observation(position)
    calm = ~((seen.plane("enemy") > 0) | (seen.plane("transmission") > 0)).any()
    ways = first_steps(player.cell, CellSet.from_cell(target), walkable | here)
    step = jnp.argmax(_towards(here, ways))
    siphon = jnp.where(mask[SIPHON], SIPHON, _SIPH_PLUS)
    action = jnp.where(target == player.cell, siphon, step).astype(jnp.int32)
    barred = jnp.zeros(NUM_ACTIONS, bool).at[: len(Direction)].set(_towards(here, at_exit))
    return _Harvest(jnp.where(stays & calm & mask[action], action, -1), stays & barred)


def _towards(start: CellSet, cells: CellSet) -> Bool[Array, "4"]:
    """Whether each direction leads from `start` onto one of `cells`."""
    return jnp.stack([(start.shifted(direction) & cells).any() for direction in Direction])


def _loses_points(state: State) -> Legal:
    """Bars UNDO where it would lose points and the player has more than 1 hp."""
    past, player = recall(state.history), state.position.player
    loses = past.held & (past.player.score < player.score) & (player.hp > 1)
    return loses & (np.arange(NUM_ACTIONS) == UNDO)
