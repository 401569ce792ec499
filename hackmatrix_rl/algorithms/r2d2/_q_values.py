"""Q-values: their units, their targets, and a network's over sequences."""

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

    Large returns change the network less, and nothing has to be known of their size. The linear
    part, `epsilon`, keeps the inverse from growing fast.

    Source: Pohlen et al. 2018, "Observe and look further: achieving consistent performance on
    Atari".

    Raises:
        TypeError: `epsilon` is no number.
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
        # The usual form, (sqrt(1 + 4 epsilon shifted) - 1) / (2 epsilon), loses most digits in
        # float32: its difference is of two numbers that are nearly 1.
        root = 2.0 * shifted / (jnp.sqrt(1.0 + 4.0 * self.epsilon * shifted) + 1.0)
        return jnp.sign(value) * (root - 1.0) * (root + 1.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "ValueRescaling":
        return self  # it has no statistics


SquareRootScale = ValueRescaling
"""The former name, for one version."""


def double_q(
    online: Float32[Array, "time batch num_actions"],
    target: Float32[Array, "time batch num_actions"],
    mask: Bool[Array, "time batch num_actions"],
    scale: ValueScale,
) -> Float32[Array, "time batch"]:
    """Double-Q values of positions, in units of reward.

    The network that learns, `online`, chooses among the legal actions; `target` judges the choice.

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
    """N-step returns: discounted rewards of `n_step` steps, and a bootstrap value.

    Within an episode, the value belongs to the position `n_step` later. Where a limit cuts the
    episode before, it is `last_value`, of the position that the step led to (`None` if no episode
    is truncated). Where the rules end it, nothing follows. Nothing comes from the next episode.

    Returns:
        The returns of all steps but the last `n_step`.
    """
    cut = jnp.zeros_like(value) if last_value is None else last_value
    found = value
    for _ in range(n_step):
        some = found.shape[0] - 1
        onwards = jnp.where(truncated[:some], cut[:some], found[1:])
        found = reward[:some] + gamma * jnp.where(terminated[:some], 0.0, onwards)
    return found


def q_values(
    logits: Float32[Array, "*axes num_actions"], value: Float32[Array, "*axes"], *, dueling: bool
) -> Float32[Array, "*axes num_actions"]:
    """Q-values from a network's logits and value, in units of the network.

    The logits are the Q-values themselves. With `dueling` they are the advantages, up to a
    constant, and the value is the mean of the Q-values over all actions.

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
    """Q-values of whole sequences, all of them at once.

    `last` is what was seen after each step, before any reset; `None` if nobody asks for it. The
    memory is reset after a step that is `done`. `recompute` keeps only the input of each step
    for the gradient.

    Returns:
        The Q-values of the observations and of `last`, each with the memory that belongs to it.
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
    assert here is not None  # the observations themselves are always there
    return here, after


def memory_after(
    policy: ActorCritic,
    observation: PyTree[Array],
    carry: PyTree[Array],
    done: Bool[Array, "time batch"],
) -> PyTree[Array]:
    """The memory after some steps; gradients do not go back through it."""
    if not done.shape[0]:
        return carry
    initial = policy.initial_carry()
    carries = unroll_steps(Remember(policy), initial, observation, carry, done)
    last = jax.tree.map(lambda leaf: leaf[-1], carries)
    return jax.lax.stop_gradient(reset_carry(last, initial, done[-1]))


class Twice(eqx.Module):
    """The outputs of a step and of the position after it; the memory continues from the step.

    With `driven`, the inputs are results of `drive`, and the outputs are hidden layers; else they
    are observations, and logits with values.
    """

    policy: ActorCritic
    driven: bool = eqx.field(static=True)

    def __call__(self, seen: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """Both outputs, and the memory after the step."""
        here, last = seen
        found, after = self._one(here, carry)
        beyond = None if last is None else self._one(last, after)[0]
        return (found, beyond), after

    def _one(self, seen: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        if self.driven and isinstance(self.policy, RecurrentActorCritic):
            return self.policy.advance(seen, carry)
        logits, value, after = self.policy(seen, carry)
        return (logits, value), after


class Remember(eqx.Module):
    """The memory after each step."""

    policy: ActorCritic

    def __call__(self, seen: PyTree[Array], carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """The memory, twice: to look at and as the carry."""
        if isinstance(self.policy, RecurrentActorCritic):
            _, after = self.policy.trunk(seen, carry)
        else:
            *_, after = self.policy(seen, carry)
        return after, after
