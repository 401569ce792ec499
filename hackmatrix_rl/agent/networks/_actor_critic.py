"""What a network is to the rest of the package."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent.precision import accumulate_in_float32


class ActorCritic(eqx.Module):
    """A policy and a value estimate over one observation, with or without memory.

    All methods but `unroll` speak of ONE environment; callers use `jax.vmap`.

    A network computes in the dtype of its own parameters, so that casting the parameters
    casts the computation (see `PrecisionPolicy`), and returns float32 whatever that dtype
    is. The carry is float32 as well: it is kept over many steps, where the rounding of a
    16-bit dtype would add up.

    The value is in the units of the `ValueScale` that the network is trained under, not in
    units of reward, unless that is the `IdentityScale`.
    """

    @abstractmethod
    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode; `()` for a network without memory."""

    @abstractmethod
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Looks at one observation.

        Args:
            observation: as described by `EnvSpec.observation`.
            carry: what the last call returned, or `initial_carry()`.

        Returns:
            The logits of all actions (legal or not), the value, and the next carry.
        """

    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """Evaluates whole sequences, as the collector saw them.

        A network may replace this by something faster that computes the same (the work that
        does not depend on the memory taken out of the loop over the steps, say).

        Args:
            observations: each leaf `[num_steps, batch, ...]`.
            carry: the memory before the first step; each leaf `[batch, ...]`.
            done: whether an episode ended with the action taken at a step. The memory starts
                anew after it.

        Returns:
            Logits and values of every step.
        """
        logits, value = unroll_steps(
            ApplyPolicy(self), self.initial_carry(), observations, carry, done
        )
        return logits, value

    def begin(self, observations: PyTree[Array]) -> PyTree[Array]:
        """What `follow` is to be handed with the first step of a batch; by default nothing.

        Args:
            observations: of the first step, each leaf `[batch, ...]`.
        """
        return ()

    def follow(
        self, observations: PyTree[Array], carry: PyTree[Array], kept: PyTree[Array]
    ) -> tuple[
        Float32[Array, "batch num_actions"], Float32[Array, " batch"], PyTree[Array], PyTree[Array]
    ]:
        """The call on a batch, step by step, as the collector acts.

        A network may replace this by something faster that computes the same, and so keep
        from one step what serves for the next. That is no memory: the result does not depend
        on it.

        Args:
            observations: each leaf `[batch, ...]`.
            carry: the memory, each leaf `[batch, ...]`.
            kept: what the step before returned last, or `begin` of the first observations. It
                is good for this network alone, as its parameters are now.

        Returns:
            Logits, values, the next carry, and what is kept.
        """
        return *jax.vmap(self)(observations, carry), kept

    def recompute_blocks(self) -> "ActorCritic":
        """The same network, each of whose blocks keeps nothing but its input for the gradient.

        What is inside of a block is computed again when the gradient comes by: less memory,
        more work. To be replaced by networks that are made of blocks.

        Raises:
            ValueError: the network has no blocks.
        """
        raise ValueError(f"{type(self).__name__} has no blocks to recompute")


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
) -> Any:
    """Calls something with memory on whole sequences of a batch.

    Args:
        call: a module, or a method of one, from one observation and a carry to an output and
            the next carry.
        initial: the carry at the start of an episode.
        observations: each leaf `[num_steps, batch, ...]`.
        carry: before the first step; each leaf `[batch, ...]`.
        done: whether an episode ended with a step; the carry starts anew after it.

    Returns:
        The outputs; each leaf `[num_steps, batch, ...]`.
    """
    num_steps, batch = done.shape
    if not jax.tree.leaves(carry):
        # The steps are independent: one flat batch makes each layer one matrix product.
        # Environments come first in it, so that it stays cut over devices as they are.
        flat = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), observations
        )
        output, _ = jax.vmap(call, in_axes=(0, None))(flat, carry)
        return jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf.reshape(batch, num_steps, *leaf.shape[1:]), 0, 1), output
        )

    held, narrow = accumulate_in_float32(call)

    def step(
        carry: PyTree[Array], inputs: tuple[PyTree[Array], Bool[Array, " batch"]]
    ) -> tuple[PyTree[Array], Any]:
        observation, ended = inputs
        output, carry = jax.vmap(narrow(held))(observation, carry)
        return reset_carry(carry, initial, ended), output

    return jax.lax.scan(step, carry, (observations, done))[1]


def reset_carry(
    carry: PyTree[Array], initial: PyTree[Array], ended: Bool[Array, " batch"]
) -> PyTree[Array]:
    """The carries of a batch, put back to `initial` where an episode ended.

    Args:
        carry: each leaf `[batch, ...]`.
        initial: the same without the batch axis.
        ended: where to start anew.
    """

    def choose(leaf: Array, first: Array) -> Array:
        where = ended.reshape(-1, *(1 for _ in first.shape))
        return jnp.where(where, first[None], leaf)

    return jax.tree.map(choose, carry, initial)
