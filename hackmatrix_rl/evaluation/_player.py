"""Players: a network or a script that chooses actions."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical, ValueScale
from hackmatrix_rl.agent.networks import ActorCritic, WithAuxiliaryHead
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.game import GameConfig


class Agent(eqx.Module):
    """Chooses actions in one environment; callers use `jax.vmap`."""

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode; by default `()`: no memory."""
        return ()

    @abstractmethod
    def act(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array]]:
        """Chooses an action.

        Args:
            observation: one observation.
            mask: the legal actions.
            carry: the carry of the last call, or `initial_carry()`.
            key: randomness of the choice.

        Returns:
            The action and the next carry.
        """


class Thought(eqx.Module):
    """A player's assessment of a position; `None` for values that it does not have.

    Attributes:
        probabilities: of each action; illegal ones have 0.
        value: the discounted return that it expects from here, in units of reward.
        win_probability: how likely it thinks a victory is.
        search_values: what its search found for each action; NaN for actions not searched.
        search_visits: how often its search tried each action.
    """

    probabilities: Float32[Array, " num_actions"] | None = None
    value: Float32[Array, ""] | None = None
    win_probability: Float32[Array, ""] | None = None
    search_values: Float32[Array, " num_actions"] | None = None
    search_visits: Int32[Array, " num_actions"] | None = None


class ThinkingAgent(Agent):
    """An agent that also returns its assessment of a position."""

    @property
    def tells_probabilities(self) -> bool:
        """Whether its thoughts include action probabilities; by default not."""
        return False

    @abstractmethod
    def think(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Chooses an action like `act`, and also returns its thought.

        Args:
            observation: one observation.
            mask: the legal actions.
            carry: the carry of the last call, or `initial_carry()`.
            key: randomness of the choice.

        Returns:
            The action and the next carry, the same as from `act`, and the thought.
        """

    def act(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array]]:
        """The action and the next carry of `think`."""
        action, carry, _ = self.think(observation, mask, carry, key=key)
        return action, carry


class StateAgent(ThinkingAgent):
    """A player that simulates actions, so it reads the state of the game.

    `act` and `think` get the state of one game in place of the observation. A fair player draws
    anew what a person at the screen does not see, and never learns the key of the real game.
    """

    @abstractmethod
    def mismatch(self, environment: Environment) -> str | None:
        """The reason why it cannot play in an environment; `None` if it can."""


class GameAgent(StateAgent):
    """A player of HackMatrix that is handed the `State` of one game.

    Attributes:
        config: sizes and league of the game that it plays.
    """

    config: eqx.AbstractVar[GameConfig]

    def mismatch(self, environment: Environment) -> str | None:
        """The mismatch if the environment is another game or has another config."""
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
    """The input of a player: the observation, or the state of the game.

    Args:
        player: the player.
        observation: of one game or of a batch.
        games: gives the state of the game or of the batch of games.
    """
    return games() if isinstance(player, StateAgent) else observation


class PolicyAgent(ThinkingAgent):
    """Plays with a network.

    Attributes:
        policy: the network.
        greedy: takes the likeliest action instead of drawing one as in training.
        value_scale: the units of the network's value. Only the thought reads it.
        gamma: discount of the return that the value predicts; `None` if unknown.
    """

    policy: ActorCritic
    greedy: bool = eqx.field(static=True, default=False)
    value_scale: ValueScale | None = None
    gamma: float | None = eqx.field(static=True, default=None)

    @property
    def tells_probabilities(self) -> bool:
        """Always true: the probabilities that it samples from."""
        return True

    def initial_carry(self) -> PyTree[Array]:
        """The network's initial carry."""
        return self.policy.initial_carry()

    def think(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Draws from the network's probabilities over the legal actions, or takes the likeliest.

        The thought has no value if the units of the network's value are unknown, and a
        probability of winning if the network has a head for it.
        """
        logits, value, carry, win = consult(self.policy, observation, carry)
        chances = MaskedCategorical(logits, mask)
        action: Array = chances.mode() if self.greedy else chances.sample(key)
        scale = self.value_scale
        return (
            action,
            carry,
            Thought(
                probabilities=jnp.where(mask, chances.probs, 0.0),
                value=None if scale is None else scale.denormalize(value.astype(jnp.float32)),
                win_probability=None if win is None else jax.nn.sigmoid(win),
            ),
        )


def consult(
    policy: ActorCritic, observation: PyTree[Array], carry: PyTree[Array]
) -> tuple[
    Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array], Float32[Array, ""] | None
]:
    """Asks a network about one observation.

    Args:
        policy: the network.
        observation: one observation.
        carry: the network's memory.

    Returns:
        The logits, the value in the network's units, the next carry, and the logit of a victory,
        or `None` from a network without a head for that.
    """
    if not isinstance(policy, WithAuxiliaryHead):
        return *policy(observation, carry), None
    hidden, carry = policy.trunk(observation, carry)
    logits, value = policy.heads(hidden)
    return logits, value, carry, policy.auxiliary.win_logit(hidden)
