"""Rematerialisation: computing again in the backward pass instead of keeping in memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    ApplyPolicy,
    reset_carry,
)
from hackmatrix_rl.agent.networks._trunk import (
    PlainTrunk,
    TrunkActorCritic,
)
from hackmatrix_rl.agent.precision import accumulate_in_float32

REMAT = ("none", "blocks", "full")


def rematerialized(policy: ActorCritic, remat: str) -> ActorCritic:
    """The policy to hand to a loss, so that less is kept for the gradient.

    The results are the same, up to the order of float sums; only memory and time differ.
    The gradient's is that of the policy that went in.

    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".

    Args:
        policy: the policy.
        remat: `none`: as it is. `blocks`: each block of the network keeps only its input.
            `full`: the policy is evaluated step by step, and of a step only what goes in is
            kept: observation and memory.

    Raises:
        ValueError: there is no such choice, or the network has no blocks.
    """
    if remat == "none":
        return policy
    if remat == "blocks":
        return policy.recompute_blocks()
    if remat == "full":
        if isinstance(policy, TrunkActorCritic):
            return RecomputedTrunk(policy)
        return Recomputed(policy)
    raise ValueError(f"unknown remat {remat!r}; choose one of {', '.join(REMAT)}")


class Recomputed(ActorCritic):
    """A policy that keeps nothing of its inside when it is unrolled.

    Attributes:
        policy: the policy.
    """

    policy: ActorCritic

    def initial_carry(self) -> PyTree[Array]:
        """That of the policy."""
        return self.policy.initial_carry()

    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """What the policy says."""
        return self.policy(observation, carry)

    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """As the base class says, step by step, each computed again for the gradient."""
        logits, value = _unroll_recomputed(
            ApplyPolicy(self.policy), self.initial_carry(), observations, carry, done
        )
        return logits, value


class RecomputedTrunk(PlainTrunk):
    """The same for a policy whose hidden layer is open to others."""

    def __init__(self, policy: TrunkActorCritic) -> None:
        """Wraps a policy."""
        super().__init__(policy)

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """As the base class says, step by step, each computed again for the gradient."""
        hidden: Float[Array, "num_steps batch width"] = _unroll_recomputed(
            self.policy.trunk, self.initial_carry(), observations, carry, done
        )
        return hidden


def _unroll_recomputed(
    call: Callable[[PyTree[Array], PyTree[Array]], tuple[Any, PyTree[Array]]],
    initial: PyTree[Array],
    observations: PyTree[Array],
    carry: PyTree[Array],
    done: Bool[Array, "num_steps batch"],
) -> Any:
    """As `unroll_steps`, one step after another even where they are independent."""
    batch = done.shape[1]
    held, narrow = accumulate_in_float32(call)

    # The steps of a scan are not merged with those of the backward pass: nothing to prevent.
    @partial(jax.checkpoint, prevent_cse=False)
    def step(
        carry: PyTree[Array], inputs: tuple[PyTree[Array], Bool[Array, " batch"]]
    ) -> tuple[PyTree[Array], Any]:
        observation, ended = inputs
        output, carry = jax.vmap(narrow(held), axis_size=batch)(observation, carry)
        return reset_carry(carry, initial, ended), output

    return jax.lax.scan(step, carry, (observations, done))[1]
