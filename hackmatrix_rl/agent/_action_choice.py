"""The distribution over legal actions, and the choice of a rollout's actions."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent._collector_state import CollectorState
from hackmatrix_rl.system.errors import check_array


class MaskedCategorical(eqx.Module):
    """A categorical distribution over the legal actions.

    An illegal action has probability exactly 0 and log-probability minus infinity, whatever its
    logit, and is never sampled. If no action is legal, the distribution is uniform over all actions
    and its gradient is zero, so nothing becomes NaN. A legal action may also have the logit minus
    infinity, if another legal one has a finite logit: its probability is 0, and gradients stay
    finite.

    Everything is float32. Leading axes of `logits` and `mask` are batch axes.

    Source: Huang and Ontañón 2022, "A closer look at invalid action masking in policy
    gradient algorithms" (masked logits give a valid policy gradient).

    Attributes:
        log_probs: normalised log-probabilities; minus infinity for illegal actions.
        support: the legal actions, or all if none is legal.
    """

    log_probs: Float32[Array, "*batch num_actions"]
    support: Bool[Array, "*batch num_actions"]

    def __init__(
        self, logits: Float32[Array, "*batch num_actions"], mask: Bool[Array, "*batch num_actions"]
    ) -> None:
        """Normalises the logits over the legal actions.

        Raises:
            TypeError: the mask is not an array.
            ValueError: the mask is not boolean, or its shape is not the shape of the logits.
        """
        check_array("mask is", mask, "bool", logits.shape, hint="a True for each legal action")
        some = jnp.any(mask, axis=-1, keepdims=True)
        self.support = mask | ~some
        usable = jnp.where(some, logits, 0.0)
        self.log_probs = jax.nn.log_softmax(jnp.where(self.support, usable, -jnp.inf), axis=-1)

    @property
    def probs(self) -> Float32[Array, "*batch num_actions"]:
        """Probabilities of all actions."""
        return jnp.exp(self.log_probs)

    def sample(self, key: Key[Array, ""]) -> Int32[Array, "*batch"]:
        """Samples an action; a batch of distributions uses one key."""
        # The same result as `jax.random.categorical`, whose `argmax` takes as long as drawing the
        # noise on a CPU. So this computes the maximum, then the first action that attains it.
        noise = jax.random.gumbel(key, self.log_probs.shape, self.log_probs.dtype)
        perturbed = jax.lax.optimization_barrier(self.log_probs + noise)  # computed once for both
        is_largest = perturbed == jnp.max(perturbed, axis=-1, keepdims=True)
        last = perturbed.shape[-1] - 1
        actions = jnp.arange(last + 1, dtype=jnp.int32)
        # If all are NaN, no action equals the maximum.
        return jnp.min(jnp.where(is_largest, actions, last), axis=-1)

    def log_prob(self, action: Int32[Array, "*batch"]) -> Float32[Array, "*batch"]:
        """Log-probability of an action; minus infinity for an illegal action."""
        # A masked sum rather than an index: its gradient is a select, not a scatter.
        actions = jnp.arange(self.log_probs.shape[-1], dtype=jnp.int32)
        chosen = action[..., None] == actions.reshape(*(1 for _ in action.shape), -1)
        return jnp.sum(jnp.where(chosen, self.log_probs, 0.0), axis=-1)

    def entropy(self) -> Float32[Array, "*batch"]:
        """Entropy in nats; an action of probability 0 contributes 0."""
        possible, finite = self._finite()
        return -jnp.sum(jnp.where(possible, jnp.exp(finite) * finite, 0.0), axis=-1)

    def divergence_from(self, other: "MaskedCategorical") -> Float32[Array, "*batch"]:
        """Kullback-Leibler divergence KL(self || other), in nats.

        It is infinite if an action has a positive probability here and probability 0 in `other`.
        """
        possible, finite = self._finite()
        probs = jnp.exp(finite)  # also 0 where it underflows
        # An action of probability 0 here contributes 0, whatever its probability in `other`.
        other_finite = jnp.where(possible & (probs != 0.0), other.log_probs, 0.0)
        return jnp.sum(jnp.where(possible, probs * (finite - other_finite), 0.0), axis=-1)

    def cross_entropy(
        self, targets: Float32[Array, "*batch num_actions"]
    ) -> Float32[Array, "*batch"]:
        """Cross-entropy to target probabilities, in nats: minus the sum of `targets * log_probs`.

        An action contributes 0 if its target is 0 or it is illegal. The result is infinite if a
        legal action of probability 0 has a positive target.
        """
        counts = self.support & (targets != 0.0)
        return -jnp.sum(targets * jnp.where(counts, self.log_probs, 0.0), axis=-1)

    def _finite(
        self,
    ) -> tuple[Bool[Array, "*batch num_actions"], Float32[Array, "*batch num_actions"]]:
        """Where log-probabilities are not -inf, and the log-probabilities with -inf replaced by 0.

        `0 * -inf` would be NaN, in the value and in the gradient. NaN is not replaced.
        """
        possible = self.log_probs != -jnp.inf
        return possible, jnp.where(possible, self.log_probs, 0.0)

    def mode(self) -> Int32[Array, "*batch"]:
        """The most probable action; the first one if several are equal."""
        return jnp.argmax(self.log_probs, axis=-1).astype(jnp.int32)


Logits = Float32[Array, "num_envs num_actions"]
Mask = Bool[Array, "num_envs num_actions"]
PerEnv = Float32[Array, " num_envs"]
Keys = Key[Array, " num_envs"]
Chosen = tuple[Int32[Array, " num_envs"], PyTree[Array], PyTree[Array]]


class ActionChoice(eqx.Module):
    """Chooses the actions of a batch of environments.

    Its state, `CollectorState.choice_state`, has a leading axis of environments.
    """

    @abstractmethod
    def choose(self, collector_state: CollectorState, pi: MaskedCategorical, keys: Keys) -> Chosen:
        """Returns the actions, the next state, and notes for `Rollout.notes`.

        `pi` has the policy's distributions.
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

    def choose(self, collector_state: CollectorState, pi: MaskedCategorical, keys: Keys) -> Chosen:
        return jax.vmap(MaskedCategorical.sample)(pi, keys), collector_state.choice_state, ()


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
