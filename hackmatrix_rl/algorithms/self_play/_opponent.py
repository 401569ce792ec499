"""The search of self-play as an agent, and as the opponent of a person."""

from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._search import GameResults, Search
from hackmatrix_rl.env import Environment, SingleGame
from hackmatrix_rl.evaluation import Opponent, PolicyAgent, StateAgent, ThinkingAgent, Thought
from hackmatrix_rl.search import SingleGameModel


@final
class SearchingAgent(StateAgent):
    """Plays one position by a search; its `Thought` reports the search.

    The value of a `Thought` is the value of the chosen move for the player to move, in [-1, 1].
    """

    game: SingleGame[Any]
    policy: ActorCritic
    search: Search

    @property
    def tells_probabilities(self) -> bool:
        """`True`: the network's probabilities, improved by the search."""
        return True

    def mismatch(self, environment: Environment) -> str | None:
        return SingleGameModel(self.game, in_turn=True).mismatch(environment)

    def think(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        batch = jax.tree.map(lambda leaf: leaf[None], observation)
        batched = self.search(self.game, self.policy, batch, key[None])
        found = jax.tree.map(lambda leaf: leaf[0], batched)
        thought = Thought(
            probabilities=found.weights,
            value=found.values[found.action],
            search_values=jnp.where(found.visits > 0, found.values, jnp.nan),
            search_visits=found.visits,
        )
        return found.action, carry, thought


def opponent_of(game: SingleGame[Any], policy: ActorCritic, search: Search) -> Opponent:
    """A network with the search of its training, without root noise, as a person's opponent."""

    def player(num_simulations: int) -> ThinkingAgent:
        if num_simulations == 0:
            return PolicyAgent(policy, greedy=True, value_scale=GameResults(), gamma=1.0)
        quiet = replace(search, num_simulations=num_simulations, gumbel_scale=0.0)
        return SearchingAgent(game, policy, quiet)

    return Opponent(game, player, search.num_simulations)
