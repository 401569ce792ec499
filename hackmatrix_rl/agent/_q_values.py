"""Q-values of legal actions, their losses, and epsilon-greedy actions."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent._action_choice import ActionChoice
from hackmatrix_rl.agent._collector_state import CollectorState
from hackmatrix_rl.agent._distribution import MaskedCategorical


def best_action(
    values: Float32[Array, "*axes num_actions"], mask: Bool[Array, "*axes num_actions"]
) -> Int32[Array, "*axes"]:
    """The legal action of the largest value, the first of several; the first if none is legal."""
    return MaskedCategorical(values, mask).mode()


def value_of(
    values: Float32[Array, "*axes num_actions"], action: Int32[Array, "*axes"]
) -> Float32[Array, "*axes"]:
    """The value of one action."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


def epsilon_greedy(
    dist: MaskedCategorical, epsilon: Float32[Array, ""], *, key: Key[Array, ""]
) -> Int32[Array, ""]:
    """A uniformly random legal action with probability `epsilon`, else the most probable one.

    Args:
        dist: the distribution over actions. If its logits are Q-values, its mode is the greedy
            action.
        epsilon: the probability of a random action.
        key: source of the randomness.
    """
    whether, which = jax.random.split(key)
    anything = MaskedCategorical(jnp.zeros_like(dist.log_probs), dist.support).sample(which)
    explores = jax.random.uniform(whether) < epsilon
    return jnp.where(explores, anything, dist.mode())


class QLosses(eqx.Module):
    """Metrics of a loss of Q-values; means over a batch.

    Attributes:
        q_loss: half of the squared error, in squared units of the network.
        td_error: the absolute error, in units of the network.
        q_value: Q-value of the actions that were taken, in units of reward.
        q_target: what it should be, in units of reward.
    """

    q_loss: Float32[Array, "*axes"]
    td_error: Float32[Array, "*axes"]
    q_value: Float32[Array, "*axes"]
    q_target: Float32[Array, "*axes"]


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
