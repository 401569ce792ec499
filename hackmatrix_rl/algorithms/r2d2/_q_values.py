"""Q-values: value rescaling, targets, and the Q-values of a network over sequences."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent import ValueScale, best_action, value_of
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    RecurrentActorCritic,
    reset_carry,
    unroll_steps,
)
from hackmatrix_rl.system.errors import number


class ValueRescaling(ValueScale):
    """Value rescaling: `h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x`, nearly a square root.

    It compresses large returns and needs no statistics of them. The linear term, `epsilon`, makes
    the inverse Lipschitz continuous.

    Source: Pohlen et al. 2018, "Observe and look further: achieving consistent performance on
    Atari".

    Raises:
        TypeError: `epsilon` is not a number.
        ValueError: `epsilon` is negative or not finite.
    """

    epsilon: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        number("epsilon", self.epsilon)
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be 0 or more, not {self.epsilon}")

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        root = jnp.sign(value) * (jnp.sqrt(jnp.abs(value) + 1.0) - 1.0)
        return root + self.epsilon * value

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        shifted = jnp.abs(value) + 1.0 + self.epsilon
        # The usual form, (sqrt(1 + 4 epsilon shifted) - 1) / (2 epsilon), cancels in float32: both
        # terms of the difference are close to 1.
        root = 2.0 * shifted / (jnp.sqrt(1.0 + 4.0 * self.epsilon * shifted) + 1.0)
        return jnp.sign(value) * (root - 1.0) * (root + 1.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "ValueRescaling":
        return self  # it has no statistics


SquareRootScale = ValueRescaling
"""The former name of `ValueRescaling`, for one version."""


def double_q(
    online: Float32[Array, "time batch num_actions"],
    target: Float32[Array, "time batch num_actions"],
    mask: Bool[Array, "time batch num_actions"],
    scale: ValueScale,
) -> Float32[Array, "time batch"]:
    """Double-Q values, in units of reward.

    The online network selects a legal action, and the target network evaluates it.

    Source: van Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """
    return scale.denormalize(value_of(target, best_action(online, mask)))


def n_step_returns(
    reward: Float32[Array, "time batch"],
    terminated: Bool[Array, "time batch"],
    truncated: Bool[Array, "time batch"],
    value: Float32[Array, "time batch"],
    last_value: Float32[Array, "time batch"] | None,
    *,
    gamma: float,
    n_step: int,
) -> Float32[Array, "fewer batch"]:
    """N-step returns: the discounted rewards of `n_step` steps, and a bootstrap value.

    Within an episode, the bootstrap value is `value`, `n_step` steps later. At a truncation before
    that, it is `last_value` of the truncated step (`None` if no episode is truncated). At a
    termination it is 0. No reward or value crosses the end of an episode.

    Returns:
        The returns of all steps but the last `n_step`.
    """
    last_value = jnp.zeros_like(value) if last_value is None else last_value
    found = value
    for _ in range(n_step):
        some = found.shape[0] - 1
        bootstrap = jnp.where(truncated[:some], last_value[:some], found[1:])
        found = reward[:some] + gamma * jnp.where(terminated[:some], 0.0, bootstrap)
    return found


def q_values(
    logits: Float32[Array, "*axes num_actions"], value: Float32[Array, "*axes"], *, dueling: bool
) -> Float32[Array, "*axes num_actions"]:
    """Q-values from a network's logits and value, normalized as these are.

    Without `dueling`, the logits are the Q-values. With `dueling`, they are the advantages up to a
    constant, and the value is the mean Q-value over all actions.

    Source: Wang et al. 2016, "Dueling network architectures for deep reinforcement learning".
    """
    if not dueling:
        return logits
    return value[..., None] + logits - jnp.mean(logits, axis=-1, keepdims=True)


def unroll_q(
    policy: ActorCritic,
    observation: PyTree[Array],
    last: PyTree[Array] | None,
    carry: PyTree[Array],
    done: Bool[Array, "time batch"],
    *,
    dueling: bool,
    recompute: bool = False,
) -> tuple[
    Float32[Array, "time batch num_actions"], Float32[Array, "time batch num_actions"] | None
]:
    """Q-values of a batch of sequences.

    `last` is the observation after each step, before any reset; `None` if it is not needed. The
    memory is reset after a step that is `done`. `recompute` stores only the input of each step and
    recomputes the step in the backward pass.

    Returns:
        The Q-values of the observations and of `last`, each with the memory at that point.
    """
    initial = policy.initial_carry()
    if isinstance(policy, RecurrentActorCritic) and not recompute:
        drive = jax.vmap(jax.vmap(policy.drive))
        driven = (drive(observation), None if last is None else drive(last))
        hidden = unroll_steps(Twice(policy, driven=True), initial, driven, carry, done)
        heads = jax.vmap(jax.vmap(policy.heads))
        found = tuple(None if each is None else heads(each) for each in hidden)
    else:
        seen = observation, last
        twice = Twice(policy, driven=False)
        found = unroll_steps(twice, initial, seen, carry, done, recompute=recompute)
    here, after = (None if each is None else q_values(*each, dueling=dueling) for each in found)
    assert here is not None  # the observations are never None
    return here, after


def memory_after(
    policy: ActorCritic,
    observation: PyTree[Array],
    carry: PyTree[Array],
    done: Bool[Array, "time batch"],
) -> PyTree[Array]:
    """The memory after some steps, without a gradient."""
    if not done.shape[0]:
        return carry
    initial = policy.initial_carry()
    carries = unroll_steps(Remember(policy), initial, observation, carry, done)
    last = jax.tree.map(lambda leaf: leaf[-1], carries)
    return jax.lax.stop_gradient(reset_carry(last, initial, done[-1]))


class Twice(eqx.Module):
    """The outputs of a step and of the position after it. The memory continues from the step.

    With `driven`, the inputs are results of `drive` and the outputs are hidden layers. Otherwise
    the inputs are observations and the outputs are logits and values.
    """

    policy: ActorCritic
    driven: bool = eqx.field(static=True)

    def __call__(self, seen: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """Both outputs, and the memory after the step."""
        here, last = seen
        found, after = self._one(here, carry)
        found_last = None if last is None else self._one(last, after)[0]
        return (found, found_last), after

    def _one(self, seen: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        if self.driven and isinstance(self.policy, RecurrentActorCritic):
            return self.policy.advance(seen, carry)
        logits, value, after = self.policy(seen, carry)
        return (logits, value), after


class Remember(eqx.Module):
    """The memory after each step."""

    policy: ActorCritic

    def __call__(self, seen: PyTree[Array], carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """The memory, as the output and as the carry."""
        if isinstance(self.policy, RecurrentActorCritic):
            _, after = self.policy.trunk(seen, carry)
        else:
            *_, after = self.policy(seen, carry)
        return after, after
