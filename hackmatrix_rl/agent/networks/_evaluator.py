"""Evaluators apply a network to batches: step by step in acting, on sequences in learning.

An evaluator is handed the network, and computes what the network's call computes. So a network
never says twice what it does.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic, reset_carry
from hackmatrix_rl.agent.networks._auxiliary_head import AuxiliaryHead
from hackmatrix_rl.agent.networks._trunk import RecurrentActorCritic, TrunkActorCritic
from hackmatrix_rl.agent.precision import accumulate_in_float32

Step = tuple[
    Float32[Array, "batch num_actions"], Float32[Array, " batch"], PyTree[Array], PyTree[Array]
]


class Evaluator(eqx.Module):
    """Applies a network to batches of environments.

    Attributes:
        policy: the network.
    """

    policy: eqx.AbstractVar[ActorCritic]

    def init_cache(self, observations: PyTree[Array]) -> PyTree[Array]:
        """The cache that `act_step` needs for the first step of a batch; by default `()`.

        Args:
            observations: of the first step, each leaf `[batch, ...]`.
        """
        return ()

    def act_step(
        self, observations: PyTree[Array], carry: PyTree[Array], cache: PyTree[Array]
    ) -> Step:
        """The network's call on a batch, as the collector acts; by default just that.

        Args:
            observations: each leaf `[batch, ...]`.
            carry: the memory, each leaf `[batch, ...]`.
            cache: what the step before returned last, or `init_cache` of the first
                observations. It saves work and is no memory: the result does not depend on it.
                It is valid only for this network with its parameters as they are now.

        Returns:
            Logits, values, the next carry, and the next cache.
        """
        return *jax.vmap(self.policy)(observations, carry), cache

    @abstractmethod
    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """Evaluates whole sequences, as the collector saw them.

        Args:
            observations: each leaf `[num_steps, batch, ...]`.
            carry: the memory before the first step; each leaf `[batch, ...]`.
            done: whether an episode ended with the action taken at a step. The memory starts
                anew after it.

        Returns:
            Logits and values of every step.
        """


class TrunkEvaluator(Evaluator):
    """Applies a network with a trunk, and shows the trunk's output.

    Attributes:
        policy: the network.
        auxiliary: the head of an auxiliary loss, if the network has one.
    """

    policy: eqx.AbstractVar[TrunkActorCritic]
    auxiliary: eqx.AbstractVar[AuxiliaryHead | None]

    @abstractmethod
    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """The trunk over whole sequences; arguments as those of `unroll`."""

    @final
    def apply_heads(
        self, hidden: Float[Array, "num_steps batch width"]
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """The heads over the result of `unroll_trunk`: logits and values."""
        logits, value = jax.vmap(jax.vmap(self.policy.heads))(hidden)
        return logits, value

    @final
    def value_loss(
        self,
        hidden: Float[Array, "num_steps batch width"],
        targets: Float32[Array, "num_steps batch"],
    ) -> Float32[Array, "num_steps batch"] | None:
        """The value head's own loss over the result of `unroll_trunk`; `None` if it has none."""
        loss: Float32[Array, "num_steps batch"] | None = jax.vmap(
            jax.vmap(self.policy.heads.value_loss)
        )(hidden, targets)
        return loss

    @final
    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """Logits and values over whole sequences."""
        return self.apply_heads(self.unroll_trunk(observations, carry, done))


@final
class PlainEvaluator(Evaluator):
    """Calls the network: on one flat batch without memory, else step after step.

    Attributes:
        policy: the network.
        recompute: whether `unroll` goes step by step and keeps only each step's input for the
            gradient, which computes the rest again.
    """

    policy: ActorCritic
    recompute: bool = eqx.field(static=True, default=False)

    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """The call on whole sequences."""
        logits, value = unroll_steps(
            ApplyPolicy(self.policy),
            self.policy.initial_carry(),
            observations,
            carry,
            done,
            recompute=self.recompute,
        )
        return logits, value


@final
class PlainTrunkEvaluator(TrunkEvaluator):
    """`PlainEvaluator` for a network with a trunk.

    Attributes:
        policy: the network.
        auxiliary: the head of an auxiliary loss, if the network has one.
        recompute: as that of a `PlainEvaluator`.
    """

    policy: TrunkActorCritic
    auxiliary: AuxiliaryHead | None = None
    recompute: bool = eqx.field(static=True, default=False)

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """The trunk on whole sequences."""
        hidden: Float[Array, "num_steps batch width"] = unroll_steps(
            self.policy.trunk,
            self.policy.initial_carry(),
            observations,
            carry,
            done,
            recompute=self.recompute,
        )
        return hidden


@final
class RecurrentEvaluator(TrunkEvaluator):
    """Takes the part of a recurrent network that needs no memory out of the loop over steps.

    Attributes:
        policy: the network.
        auxiliary: the head of an auxiliary loss, if the network has one.
    """

    policy: RecurrentActorCritic
    auxiliary: AuxiliaryHead | None = None

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """The trunk on whole sequences; only the memory itself is computed step by step."""
        driven = jax.vmap(jax.vmap(self.policy.drive))(observations)
        hidden: Float[Array, "num_steps batch width"] = unroll_steps(
            self.policy.advance, self.policy.initial_carry(), driven, carry, done
        )
        return hidden


class ApplyPolicy(eqx.Module):
    """A policy's call, with the outputs apart from the carry: for `unroll_steps`."""

    policy: ActorCritic

    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[tuple[Float32[Array, " num_actions"], Float32[Array, ""]], PyTree[Array]]:
        """Logits and value, and the next carry."""
        logits, value, carry = self.policy(observation, carry)
        return (logits, value), carry


def unroll_steps(
    call: Callable[[PyTree[Array], PyTree[Array]], tuple[Any, PyTree[Array]]],
    initial: PyTree[Array],
    observations: PyTree[Array],
    carry: PyTree[Array],
    done: Bool[Array, "num_steps batch"],
    *,
    recompute: bool = False,
) -> Any:
    """Calls something with memory on whole sequences of a batch.

    Args:
        call: a module, or a method of one, from one observation and a carry to an output and
            the next carry.
        initial: the carry at the start of an episode.
        observations: each leaf `[num_steps, batch, ...]`.
        carry: before the first step; each leaf `[batch, ...]`.
        done: whether an episode ended with a step; the carry starts anew after it.
        recompute: go step by step even without memory, and keep only each step's input for the
            gradient.

    Returns:
        The outputs; each leaf `[num_steps, batch, ...]`.
    """
    num_steps, batch = done.shape
    if not recompute and not jax.tree.leaves(carry):
        # The steps are independent: one flat batch makes each layer one matrix product.
        # Environments come first in it, so that it stays cut over devices as they are.
        flat = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), observations
        )
        output, _ = jax.vmap(call, in_axes=(0, None))(flat, carry)
        return jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf.reshape(batch, num_steps, *leaf.shape[1:]), 0, 1), output
        )

    wide, narrow = accumulate_in_float32(call)

    def step(
        carry: PyTree[Array], inputs: tuple[PyTree[Array], Bool[Array, " batch"]]
    ) -> tuple[PyTree[Array], Any]:
        observation, ended = inputs
        output, carry = jax.vmap(narrow(wide), axis_size=batch)(observation, carry)
        return reset_carry(carry, initial, ended), output

    if recompute:
        # The backward pass runs in another loop, so no compiler can merge the two computations.
        step = jax.checkpoint(step, prevent_cse=False)
    return jax.lax.scan(step, carry, (observations, done))[1]
