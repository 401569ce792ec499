"""A T-maze: a cue at the start says which way to turn at the end of a corridor."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env import Played
from hackmatrix_rl.env.memory_tasks._trial_task import ABORTED, MemoryTask, check_steps

FORWARD, LEFT, RIGHT = 0, 1, 2
"""The actions."""


@dataclass(frozen=True)
class TMazeConfig:
    """The size of a T-maze.

    Raises:
        TypeError: a field is not an integer.
        ValueError: a field is too small.
    """

    corridor: int = 20  #: Number of cells before the junction, 1 or more. The first has the cue.

    def __post_init__(self) -> None:
        check_steps(self, {"corridor": 1})


class TMazeState(eqx.Module):
    """The positions of the player and the goal."""

    cell: Int32[Array, "*batch"]  #: From 0 at the cue to `corridor` at the junction.
    right: Bool[Array, "*batch"]  #: Whether the goal is on the right.


@final
class TMaze(MemoryTask[TMazeState]):
    """A corridor with a junction at its end.

    Forward moves one cell. At the junction, the reward is 1 for the turn of the cue and 0 for the
    other turn; both end the episode. An action against a wall costs 0.1 and has no other effect.

    The observation is one-hot: cue left, cue right, corridor, junction. All cells of the corridor
    look alike.

    Source: Bakker 2002, "Reinforcement learning with long short-term memory", here with a goal of 1
    instead of 4.

    Attributes:
        config: the size.
    """

    config: TMazeConfig = eqx.field(static=True, default=TMazeConfig())
    best_return = 1.0  #: The goal, without an action against a wall.
    memoryless_return = 0.5  #: The junction looks the same for both goals.
    num_actions = 3  #: Forward, left, right.

    @property
    def longest_dependence(self) -> int:
        """From the cue to the turn, without actions against a wall."""
        return self.config.corridor + 1

    def start(self, *, key: Key[Array, ""]) -> TMazeState:
        """The start at the cue, with a uniform goal."""
        return TMazeState(jnp.int32(0), jax.random.bernoulli(key, 0.5))

    def observe(self, state: TMazeState) -> Float32[Array, " four"]:
        first, junction = state.cell == 0, state.cell >= self.config.corridor
        seen = [first & ~state.right, first & state.right, ~first & ~junction, junction]
        return jnp.stack(seen).astype(jnp.float32)

    def render(self, state: TMazeState) -> str:
        """The corridor from above; G is the goal."""
        cell, right = int(state.cell), bool(state.right)
        corridor = "".join(
            "@" if place == cell else "." for place in range(self.config.corridor + 1)
        )
        sides = "G" if not right else "-", "G" if right else "-"
        margin = " " * self.config.corridor
        return f"{margin}{sides[0]} left\n{corridor}\n{margin}{sides[1]} right"

    def play(self, state: TMazeState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Moves; the key is unused."""
        junction, forward = state.cell >= self.config.corridor, action == FORWARD
        turns = junction & ~forward
        found = turns & ((action == RIGHT) == state.right)
        bumps = junction == forward
        after = TMazeState(jnp.where(forward & ~junction, state.cell + 1, state.cell), state.right)
        reward = jnp.where(found, 1.0, jnp.where(bumps, ABORTED, 0.0))
        return Played(after, reward, turns)
