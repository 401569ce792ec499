"""Epsilon-greedy actions from Q-values, for the collector."""

from typing import final

import jax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    ActionChoice,
    CollectorState,
    MaskedCategorical,
    best_action,
    epsilon_greedy,
    value_of,
)


@final
class EpsilonGreedyChoice(ActionChoice):
    """Takes a random legal action with some probability, else the one of the largest Q-value.

    The network's logits are the Q-values.

    Attributes:
        epsilon: the probability of a random action, in every environment.
    """

    epsilon: Float32[Array, ""]

    def choose(
        self,
        actors: CollectorState,
        chances: MaskedCategorical,
        memory: PyTree[Array],
        keys: Key[Array, " num_envs"],
    ) -> tuple[Int32[Array, " num_envs"], PyTree[Array], PyTree[Array]]:
        """An action in each environment; see `ActionChoice.choose`."""
        actions = jax.vmap(lambda dist, key: epsilon_greedy(dist, self.epsilon, key=key))(
            chances, keys
        )
        return actions, memory, ()

    def begin_anew(
        self, memory: PyTree[Array], done: Bool[Array, " num_envs"], keys: Key[Array, " num_envs"]
    ) -> PyTree[Array]:
        """The same memory."""
        return memory

    def state_value(
        self,
        logits: Float32[Array, "num_envs num_actions"],
        value: Float32[Array, " num_envs"],
        mask: Bool[Array, "num_envs num_actions"],
    ) -> Float32[Array, " num_envs"]:
        """The largest Q-value of the legal actions."""
        return value_of(logits, best_action(logits, mask))
