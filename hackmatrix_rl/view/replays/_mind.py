"""What an agent makes of the positions of a game."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import Agent, PolicyAgent, ThinkingAgent, Thought, read_by, step_keys
from hackmatrix_rl.game import Action, State
from hackmatrix_rl.view.replays._match import Match


@dataclass(frozen=True)
class Opinion:
    """An agent's action in a position, and its reasons; what it does not report is empty or `None`.

    Attributes:
        probabilities: of the legal actions, the likeliest first.
        value: the discounted return that it expects.
        win_probability: how likely it thinks a victory is.
        search_values: what its search found, by action.
        search_visits: how often its search tried each action.
    """

    action: Action
    probabilities: dict[Action, float]
    value: float | None
    win_probability: float | None
    search_values: dict[Action, float]
    search_visits: dict[Action, int]


class Mind:
    """An agent that follows a game, and updates its memory with each move.

    It draws as in `evaluate`, so an agent that plays its own opinions plays the same game as there.

    Args:
        player: a network or an agent.
        match: the game; it may go on, by anybody's moves.
        environment: how the player sees; by default with the compact observation.
    """

    def __init__(
        self, player: Agent | ActorCritic, match: Match, *, environment: HackMatrix | None = None
    ) -> None:
        self._player = PolicyAgent(player) if isinstance(player, ActorCritic) else player
        self._match = match
        self._environment = HackMatrix(match.config) if environment is None else environment
        self._carry = self._player.initial_carry()
        self._opinions: list[Opinion] = []

    def opinion(self, number: int | None = None) -> Opinion:
        """The agent's opinion after a number of moves, by default of the newest position.

        Earlier positions that it has not seen yet are considered first, as its memory needs them.
        """
        number = self._match.now.number if number is None else number
        for seen in range(len(self._opinions), number + 1):
            moment = self._match.moments[seen]
            mask, key = jnp.asarray(moment.mask), step_keys(self._match.key, seen)[0]
            action, self._carry, thought = _think(
                self._player, self._environment, moment.state, mask, self._carry, key
            )
            self._opinions.append(_opinion(Action(int(action)), thought, moment.mask))
        return self._opinions[number]


def _opinion(action: Action, thought: Thought, mask: np.ndarray) -> Opinion:
    legal = [each for each in Action if mask[each]]

    def by_action(numbers: Array | None) -> dict[Action, Any]:
        if numbers is None:
            return {}
        found = {each: np.asarray(numbers)[each].item() for each in legal}
        kept = {each: number for each, number in found.items() if not np.isnan(number)}
        return dict(sorted(kept.items(), key=lambda pair: -pair[1]))

    return Opinion(
        action=action,
        probabilities=by_action(thought.probabilities),
        value=None if thought.value is None else float(thought.value),
        win_probability=None if thought.win_probability is None else float(thought.win_probability),
        search_values=by_action(thought.search_values),
        search_visits=by_action(thought.search_visits),
    )


@eqx.filter_jit
def _think(
    player: Agent,
    environment: HackMatrix,
    state: State,
    mask: Bool[Array, " num_actions"],
    carry: PyTree[Array],
    key: Key[Array, ""],
) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
    observation = read_by(player, environment.observe(state), lambda: state)
    if isinstance(player, ThinkingAgent):
        return player.think(observation, mask, carry, key=key)
    return (*player.act(observation, mask, carry, key=key), Thought())
