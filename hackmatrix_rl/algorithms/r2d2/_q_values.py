"""Q-values of a network, over one step or over whole sequences."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent.networks import (
    ActorCritic,
    RecurrentActorCritic,
    reset_carry,
    unroll_steps,
)


def q_values(
    logits: Float32[Array, "*axes num_actions"], value: Float32[Array, "*axes"], *, dueling: bool
) -> Float32[Array, "*axes num_actions"]:
    """Q-values from a network's logits and value, in units of the network.

    Source: Wang et al. 2016, "Dueling network architectures for deep reinforcement learning".

    Args:
        logits: the Q-values themselves; with `dueling` the advantages, up to a constant.
        value: with `dueling` the mean of the Q-values over all actions; else it is not read.
        dueling: whether value and advantages are learned apart.
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

    Args:
        policy: the network.
        observation: each leaf `[time, batch, ...]`.
        last: what was seen after each step, before any reset; `None` if nobody asks for it.
        carry: the memory before the first step; each leaf `[batch, ...]`.
        done: whether an episode ended with a step. The memory starts anew after it.
        dueling: see `q_values`.
        recompute: keep only the input of each step for the gradient.

    Returns:
        The Q-values of the observations, and those of `last`, each with the memory that belongs
        to it.
    """
    initial = policy.initial_carry()
    if isinstance(policy, RecurrentActorCritic) and not recompute:
        drive = jax.vmap(jax.vmap(policy.drive))
        driven = (drive(observation), None if last is None else drive(last))
        hidden = unroll_steps(AdvanceTwice(policy), initial, driven, carry, done)
        heads = jax.vmap(jax.vmap(policy.heads))
        found = tuple(None if each is None else heads(each) for each in hidden)
    else:
        seen = observation, last
        found = unroll_steps(CallTwice(policy), initial, seen, carry, done, recompute=recompute)
    here, after = (
        None if each is None else q_values(each[0], each[1], dueling=dueling) for each in found
    )
    assert here is not None  # the observations themselves are always there
    return here, after


def memory_after(
    policy: ActorCritic,
    observation: PyTree[Array],
    carry: PyTree[Array],
    done: Bool[Array, "time batch"],
) -> PyTree[Array]:
    """The memory after some steps; gradients do not go back through it.

    Args:
        policy: the network.
        observation: each leaf `[time, batch, ...]`.
        carry: the memory before the first step.
        done: see `unroll_q`.
    """
    if not done.shape[0]:
        return carry
    initial = policy.initial_carry()
    carries = unroll_steps(Remember(policy), initial, observation, carry, done)
    last = jax.tree.map(lambda leaf: leaf[-1], carries)
    return jax.lax.stop_gradient(reset_carry(last, initial, done[-1]))


class AdvanceTwice(eqx.Module):
    """The hidden layer of a step and of the position after it; the memory goes on from the step."""

    policy: RecurrentActorCritic

    def __call__(self, driven: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """Both hidden layers, and the memory after the step."""
        here, last = driven
        hidden, after = self.policy.advance(here, carry)
        beyond = None if last is None else self.policy.advance(last, after)[0]
        return (hidden, beyond), after


class CallTwice(eqx.Module):
    """`AdvanceTwice` for a network that has only a call."""

    policy: ActorCritic

    def __call__(self, seen: Any, carry: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        """Logits and value of both, and the memory after the step."""
        here, last = seen
        *found, after = self.policy(here, carry)
        beyond = None if last is None else self.policy(last, after)[:2]
        return (tuple(found), beyond), after


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
