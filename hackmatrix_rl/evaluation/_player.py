"""Players: a network or a script that chooses actions."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, Shaped

from hackmatrix_rl.agent import MaskedCategorical, ValueScale
from hackmatrix_rl.agent.networks import ActorCritic, WithAuxiliaryHead
from hackmatrix_rl.env import (
    ActionSpace,
    CompactObservation,
    Discrete,
    Environment,
    HackMatrix,
    Number,
    Sight,
    SingleGame,
)
from hackmatrix_rl.evaluation._undo_memory import UndoMemory
from hackmatrix_rl.games.hackmatrix import NUM_DIRECTIONS, SIZE, STEPS, CellSet, GameConfig, flood

Mask = Bool[Array, " mask_size"]
Chosen = tuple[Shaped[Array, "*action"], PyTree[Array]]
"""An action as the environment plays it, and the next carry."""


class Agent(eqx.Module):
    """Chooses actions in one environment; callers use `jax.vmap`."""

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode; by default `()`: no memory."""
        return ()

    @abstractmethod
    def act(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Chosen:
        """The action for one observation, and the next carry.

        Args:
            observation: one observation.
            mask: the legal actions.
            carry: the carry of the last call, or `initial_carry()`.
            key: source of randomness for the choice.
        """


class Thought(eqx.Module):
    """A player's assessment of a position; `None` for values that it does not have."""

    #: The probability of each action of a `Discrete` space; 0 for illegal ones.
    probabilities: Float32[Array, " num_actions"] | None = None
    #: The expected discounted return, in units of reward.
    value: Float32[Array, ""] | None = None
    win_probability: Float32[Array, ""] | None = None  #: The probability of winning.
    #: The search's value of each action; NaN for actions not searched.
    search_values: Float32[Array, " num_actions"] | None = None
    #: The search's number of visits of each action.
    search_visits: Int32[Array, " num_actions"] | None = None


Considered = tuple[Shaped[Array, "*action"], PyTree[Array], Thought]
"""An action, the next carry, and the thought that led to the action."""


class ThinkingAgent(Agent):
    """An agent that also returns its assessment of a position."""

    @property
    def tells_probabilities(self) -> bool:
        """Whether its thoughts include action probabilities; by default not."""
        return False

    @abstractmethod
    def think(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Considered:
        """The results of `act`, and the assessment of the position."""

    def act(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Chosen:
        action, carry, _ = self.think(observation, mask, carry, key=key)
        return action, carry


class StateAgent(ThinkingAgent):
    """A player that simulates actions, and therefore reads the state of the game.

    `act` and `think` get the state of one game instead of the observation. A fair player resamples
    the hidden information, and never uses the key of the real game.
    """

    @abstractmethod
    def mismatch(self, environment: Environment) -> str | None:
        """The reason why it cannot play in an environment; `None` if it can."""


class GameAgent(StateAgent):
    """A player of HackMatrix that reads the `State` of one game."""

    config: eqx.AbstractVar[GameConfig]  #: Sizes and league of the game that it plays.

    def mismatch(self, environment: Environment) -> str | None:
        name = type(self).__name__
        if not isinstance(environment, HackMatrix):
            return f"{name} plays only HackMatrix, not {type(environment).__name__}"
        if self.config != environment.config:
            return (
                f"{name} plays the game {self.config}, but the environment's is "
                f"{environment.config}; use {name}(config=environment.config)"
            )
        return None


def read_by(
    player: Agent, observation: PyTree[Array], games: Callable[[], PyTree[Array]]
) -> PyTree[Array]:
    """The input of a player: the observation, or the state from `games()` for a `StateAgent`."""
    return games() if isinstance(player, StateAgent) else observation


def acting(player: Agent) -> Callable[..., Chosen]:
    """`player.act` with its key by position, for `jax.vmap`."""
    return lambda observation, mask, carry, key: player.act(observation, mask, carry, key=key)


def thinking(player: Agent) -> Callable[..., Considered]:
    """`player.think` with its key by position; the thought of other agents is empty."""
    if isinstance(player, ThinkingAgent):
        return lambda observation, mask, carry, key: player.think(observation, mask, carry, key=key)
    act = acting(player)
    return lambda *given: (*act(*given), Thought())


class PolicyAgent(ThinkingAgent):
    """Plays with a network."""

    policy: ActorCritic  #: The network.
    #: Takes the most probable action instead of sampling one as in training.
    greedy: bool = eqx.field(static=True, default=False)
    #: The units of the network's value; `None` if unknown. Actions do not depend on it.
    value_scale: ValueScale | None = None
    #: Discount of the return that the value predicts; `None` if unknown.
    gamma: float | None = eqx.field(static=True, default=None)
    #: Makes actions that UNDO reverted less likely; only in HackMatrix.
    undo_memory: UndoMemory | None = None

    @property
    def tells_probabilities(self) -> bool:
        return True

    def likeliest(self, environment: Environment) -> "PolicyAgent":
        """The greedy player with this network; in HackMatrix, it has an `UndoMemory`."""
        return replace(self, greedy=True, undo_memory=UndoMemory.for_environment(environment))

    def initial_carry(self) -> PyTree[Array]:
        carry = self.policy.initial_carry()
        return carry if self.undo_memory is None else (carry, self.undo_memory.initial())

    def think(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Considered:
        """Samples from the network's probabilities of the legal actions, or takes the likeliest.

        The thought has a value if the units of the network's value are known, and a probability of
        winning if the network has a head for it.
        """
        memory = self.undo_memory
        if memory is not None:
            carry, undone = carry
            cost, undone = memory.arrive(undone, observation)
        logits, value, carry, win = consult(self.policy, observation, carry)
        pi = self.policy.distribution(logits if memory is None else logits - cost, mask)
        action: Array = pi.to_environment(pi.mode() if self.greedy else pi.sample(key))
        if memory is not None:
            carry = carry, memory.leave(undone, action)
        scale = self.value_scale
        thought = Thought(
            probabilities=(
                jnp.where(mask, pi.probs, 0.0) if isinstance(pi, MaskedCategorical) else None
            ),
            value=None if scale is None else scale.denormalize(value.astype(jnp.float32)),
            win_probability=None if win is None else jax.nn.sigmoid(win),
        )
        return action, carry, thought


def consult(
    policy: ActorCritic, observation: PyTree[Array], carry: PyTree[Array]
) -> tuple[
    Float32[Array, " num_parameters"], Float32[Array, ""], PyTree[Array], Float32[Array, ""] | None
]:
    """Evaluates a network on one observation.

    Returns:
        The logits, the value in the network's units, the next carry, and the logit of a victory,
        or `None` without a head for it.
    """
    if not isinstance(policy, WithAuxiliaryHead):
        return *policy(observation, carry), None
    hidden, carry = policy.trunk(observation, carry)
    logits, value = policy.heads(hidden)
    return logits, value, carry, policy.auxiliary.win_logit(hidden)


@dataclass(frozen=True)
class Opponent:
    """A network that plays a game of two players in turn, with a search of any size.

    Attributes:
        game: the game; a move rewards the player who makes it.
        player: makes the player with a number of simulations before each move. With 0, the network
            plays its likeliest move.
        num_simulations: the default number; for a trained network, the number of its training.
    """

    game: SingleGame[Any]
    player: Callable[[int], ThinkingAgent]
    num_simulations: int


WHIM = 0.15
"""Probability that the runner takes a random action."""


class RandomAgent(Agent):
    """Takes a uniformly random legal action; works in any environment.

    Attributes:
        actions: the space of actions; `None` for a `Discrete` one.
    """

    actions: ActionSpace | None = eqx.field(static=True, default=None)

    def act(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Chosen:
        """A uniformly random legal action; action 0 if none is legal."""
        space = Discrete(mask.shape[0]) if self.actions is None else self.actions
        return space.sample(mask, key=key), carry


class Runner(Agent):
    """Runs to the exit and hits adjacent enemies; plays only HackMatrix.

    It takes the first action that applies:

    1. with probability 0.15 a uniformly random legal action;
    2. the first legal direction, in direction order, with an enemy on the neighbouring cell;
    3. the legal direction with the shortest path around blocks to the exit, ties uniformly;
    4. a uniformly random legal action.
    """

    def act(
        self, observation: PyTree[Array], mask: Mask, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> Chosen:
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

        # A cryptog next to the player is visible, so the observation shows all enemies there.
        enemies = CellSet.from_array(observation.plane("enemy") != 0)
        fights = directions & enemies.has(cells)
        content = observation.plane("content")
        open_ = (content == Sight.EMPTY) | (content == Sight.PICKUP) | (content == Sight.EXIT)

        # The flood starts at the exit and stops when it reaches a cell next to the player. All
        # such cells that it has reached then have the same distance.
        reached = flood(
            CellSet.from_array(content == Sight.EXIT),
            CellSet.from_array(open_),
            until=CellSet.from_cells(cells, directions),
        )
        ways = directions & reached.has(cells)

        action = jnp.where(ways.any(), any_of(ways, key=way_key), any_of(mask, key=legal_key))
        action = jnp.where(fights.any(), jnp.argmax(fights).astype(jnp.int32), action)
        whim: Float32[Array, ""] = jax.random.uniform(whim_key)
        return jnp.where(whim < WHIM, any_of(mask, key=legal_key), action), carry


def any_of(choices: Bool[Array, " n"], *, key: Key[Array, ""]) -> Int32[Array, ""]:
    """Samples one of the choices uniformly; 0 if there is none."""
    return Discrete(choices.shape[0]).sample(choices, key=key)


SCRIPTS: Mapping[str, type[Agent]] = {"random": RandomAgent, "runner": Runner}
"""The scripted players by name."""
