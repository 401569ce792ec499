"""What chooses the actions of a rollout: a draw from the policy, or epsilon-greedy by Q-values."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent._collector_state import CollectorState
from hackmatrix_rl.agent._distribution import MaskedCategorical

Logits = Float32[Array, "num_envs num_actions"]
Mask = Bool[Array, "num_envs num_actions"]
PerEnv = Float32[Array, " num_envs"]
Keys = Key[Array, " num_envs"]
Chosen = tuple[Int32[Array, " num_envs"], PyTree[Array], PyTree[Array]]


class ActionChoice(eqx.Module):
    """Chooses the actions of a batch of environments, perhaps with a memory of its own."""

    @abstractmethod
    def choose(
        self, actors: CollectorState, chances: MaskedCategorical, memory: PyTree[Array], keys: Keys
    ) -> Chosen:
        """The actions, the choice's memory after them, and notes to keep for each step.

        `chances` are the policy's distributions. Each leaf of `memory` has a leading axis of
        environments.
        """

    def begin_anew(
        self, memory: PyTree[Array], done: Bool[Array, " num_envs"], keys: Keys
    ) -> PyTree[Array]:
        """The memory after an action, where episodes may have begun; by default the same memory.

        `keys` are those of the action.
        """
        return memory

    def counts(self, memory: PyTree[Array]) -> Bool[Array, " num_envs"] | None:
        """Whether the policy itself plays the episode of each environment; `None`: all.

        Episodes of another player are left out of the sums of a rollout. `memory` is that after the
        action.
        """
        return None

    def state_value(self, logits: Logits, value: PerEnv, mask: Mask) -> PerEnv:
        """The value of observations by the network's outputs: by default `value`.

        An algorithm whose logits are Q-values computes the value from them.
        """
        return value


class Drawn(ActionChoice):
    """Draws the actions from the policy's distribution."""

    def choose(
        self, actors: CollectorState, chances: MaskedCategorical, memory: PyTree[Array], keys: Keys
    ) -> Chosen:
        return jax.vmap(MaskedCategorical.sample)(chances, keys), memory, ()


DRAWN = Drawn()


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

    If the logits of `dist` are Q-values, its mode is the greedy action.
    """
    whether, which = jax.random.split(key)
    anything = MaskedCategorical(jnp.zeros_like(dist.log_probs), dist.support).sample(which)
    explores = jax.random.uniform(whether) < epsilon
    return jnp.where(explores, anything, dist.mode())


class QLosses(eqx.Module):
    """Metrics of a loss of Q-values; means over a batch."""

    q_loss: Float32[Array, "*axes"]  #: Half of the squared error, in squared units of the network.
    td_error: Float32[Array, "*axes"]  #: The absolute error, in units of the network.
    #: Q-value of the actions that were taken, in units of reward.
    q_value: Float32[Array, "*axes"]
    q_target: Float32[Array, "*axes"]  #: What it should be, in units of reward.


@final
class EpsilonGreedyChoice(ActionChoice):
    """Takes a random legal action with probability `epsilon`, else the one of the largest Q-value.

    The network's logits are the Q-values.
    """

    epsilon: Float32[Array, ""]

    def choose(
        self, actors: CollectorState, chances: MaskedCategorical, memory: PyTree[Array], keys: Keys
    ) -> Chosen:
        actions = jax.vmap(lambda dist, key: epsilon_greedy(dist, self.epsilon, key=key))(
            chances, keys
        )
        return actions, memory, ()

    def state_value(self, logits: Logits, value: PerEnv, mask: Mask) -> PerEnv:
        """The largest Q-value of the legal actions."""
        return value_of(logits, best_action(logits, mask))
