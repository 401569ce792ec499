"""The choice of a rollout's actions."""

from abc import abstractmethod
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, Shaped

from hackmatrix_rl.agent._collector_state import CollectorState
from hackmatrix_rl.agent.networks import Distribution, MaskedCategorical

Logits = Float32[Array, "num_envs num_parameters"]
Mask = Bool[Array, "num_envs mask_size"]
PerEnv = Float32[Array, " num_envs"]
Keys = Key[Array, " num_envs"]
Chosen = tuple[Shaped[Array, "num_envs *action"], PyTree[Array], PyTree[Array]]


class ActionChoice(eqx.Module):
    """Chooses the actions of a batch of environments.

    Its state, `CollectorState.choice_state`, has a leading axis of environments.
    """

    @abstractmethod
    def choose(self, collector_state: CollectorState, pi: Any, keys: Keys) -> Chosen:
        """Returns the raw actions, the next state, and notes for `Rollout.notes`.

        `pi` has the policy's distributions (see `Distribution`).
        """

    def begin_anew(
        self, state: PyTree[Array], done: Bool[Array, " num_envs"], keys: Keys
    ) -> PyTree[Array]:
        """Resets the state where an episode ended; by default it does not change.

        `keys` are the arguments of `choose` for the last action.
        """
        return state

    def counts(self, state: PyTree[Array]) -> Bool[Array, " num_envs"] | None:
        """The environments whose episodes the policy itself plays; `None`: all.

        `EpisodeSums` excludes the episodes of another player. `state` is the state after the
        action.
        """
        return None

    def state_value(self, logits: Logits, value: PerEnv, mask: Mask) -> PerEnv:
        """The value of observations from the network's outputs; by default `value`.

        A choice by Q-values computes it from the logits.
        """
        return value


class Sample(ActionChoice):
    """Draws the actions from the policy's distribution."""

    def choose(self, collector_state: CollectorState, pi: Distribution, keys: Keys) -> Chosen:
        actions = jax.vmap(lambda one, key: one.sample(key))(pi, keys)
        return actions, collector_state.choice_state, ()


DRAWN = Sample()


def best_action(
    values: Float32[Array, "*axes num_actions"], mask: Bool[Array, "*axes num_actions"]
) -> Int32[Array, "*axes"]:
    """The legal action with the largest value, the first in a tie; action 0 if none is legal."""
    return MaskedCategorical(values, mask).mode()


def value_of(
    values: Float32[Array, "*axes num_actions"], action: Int32[Array, "*axes"]
) -> Float32[Array, "*axes"]:
    """The value of one action."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


def epsilon_greedy(
    pi: MaskedCategorical, epsilon: Float32[Array, ""], key: Key[Array, ""]
) -> Int32[Array, ""]:
    """A uniformly random legal action with probability `epsilon`, else the mode of `pi`.

    If the logits of `pi` are Q-values, its mode is the greedy action.
    """
    explore_key, action_key = jax.random.split(key)
    uniform = MaskedCategorical(jnp.zeros_like(pi.log_probs), pi.support)
    explores = jax.random.uniform(explore_key) < epsilon
    return jnp.where(explores, uniform.sample(action_key), pi.mode())


class QLosses(eqx.Module):
    """Metrics of a loss of Q-values; means over a batch."""

    q_loss: Float32[Array, "*axes"]  #: Half the squared TD error, in squared units of the network.
    td_error: Float32[Array, "*axes"]  #: Absolute TD error, in units of the network.
    #: Q-value of the actions that were taken, in units of reward.
    q_value: Float32[Array, "*axes"]
    q_target: Float32[Array, "*axes"]  #: Its target, in units of reward.


@final
class EpsilonGreedyChoice(ActionChoice):
    """Epsilon-greedy actions: the network's logits are the Q-values."""

    epsilon: Float32[Array, ""]

    def choose(self, collector_state: CollectorState, pi: MaskedCategorical, keys: Keys) -> Chosen:
        actions = jax.vmap(epsilon_greedy, in_axes=(0, None, 0))(pi, self.epsilon, keys)
        return actions, collector_state.choice_state, ()

    def state_value(self, logits: Logits, value: PerEnv, mask: Mask) -> PerEnv:
        """The largest Q-value of the legal actions."""
        return value_of(logits, best_action(logits, mask))
