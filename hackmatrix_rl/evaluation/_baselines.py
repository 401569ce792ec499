"""Two scripted players that an agent has to beat."""

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import CompactObservation, Number, Sight
from hackmatrix_rl.evaluation._player import Agent
from hackmatrix_rl.game import NUM_DIRECTIONS, SIZE, STEPS, CellSet, flood

WHIM = 0.15
"""Probability that the runner takes a random action."""


class Script(Agent):
    """A player without memory."""

    def act(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array]]:
        """Chooses an action and leaves the carry as it is."""
        return self.choose(observation, mask, key=key), carry

    @abstractmethod
    def choose(
        self, observation: PyTree[Array], mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """Chooses an action from the observation and the mask."""


class RandomAgent(Script):
    """Takes a uniformly random legal action; works in any environment."""

    def choose(
        self, observation: PyTree[Array], mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """A uniformly random legal action; action 0 if none is legal."""
        return any_of(mask, key=key)


class Runner(Script):
    """Runs to the exit and hits enemies in the way; plays only HackMatrix.

    It takes the first of these that applies:

    1. with probability 0.15 a uniformly random legal action;
    2. the first legal direction, in direction order, with an enemy on the neighbouring cell;
    3. the legal direction with the shortest path around blocks to the exit, ties uniformly;
    4. a uniformly random legal action.
    """

    def choose(
        self, observation: PyTree[Array], mask: Bool[Array, " num_actions"], *, key: Key[Array, ""]
    ) -> Int32[Array, ""]:
        """The next action.

        Raises:
            ValueError: the observation is not HackMatrix's compact one.
        """
        if not isinstance(observation, CompactObservation):
            raise ValueError(
                "the runner reads HackMatrix(observation='compact'), "
                f"not a {type(observation).__name__}"
            )
        whim_key, legal_key, way_key = jax.random.split(key, 3)
        row, col = observation.numbers[Number.ROW], observation.numbers[Number.COL]
        cells = row * SIZE + col + np.array(STEPS, np.int32)
        directions = mask[:NUM_DIRECTIONS]

        # A cryptog beside the player is visible, so the observation shows all enemies there.
        enemies = CellSet.from_array(observation.plane("enemy") != 0)
        fights = directions & enemies.has(cells)
        content = observation.plane("content")
        open_ = (content == Sight.EMPTY) | (content == Sight.PICKUP) | (content == Sight.EXIT)

        # The search spreads from the exit and stops at the first cell next to the player. All
        # such cells that it has reached by then are equally near.
        reached = flood(
            CellSet.from_array(content == Sight.EXIT),
            CellSet.from_array(open_),
            until=CellSet.of_cells(cells, directions),
        )
        ways = directions & reached.has(cells)

        action = jnp.where(ways.any(), any_of(ways, key=way_key), any_of(mask, key=legal_key))
        action = jnp.where(fights.any(), jnp.argmax(fights).astype(jnp.int32), action)
        whim: Float32[Array, ""] = jax.random.uniform(whim_key)
        return jnp.where(whim < WHIM, any_of(mask, key=legal_key), action)


def any_of(choices: Bool[Array, " n"], *, key: Key[Array, ""]) -> Int32[Array, ""]:
    """One of the choices, uniformly; 0 if there is none."""
    lots = (jax.random.bits(key, choices.shape, jnp.uint32) >> 1).astype(jnp.int32)
    return jnp.argmax(jnp.where(choices, lots, np.int32(-1))).astype(jnp.int32)


SCRIPTS: Mapping[str, type[Agent]] = MappingProxyType({"random": RandomAgent, "runner": Runner})
"""The scripted players by name."""
