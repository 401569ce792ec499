"""What a network is to the rest of the package."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent.trainable import held_in_float32


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
        num_steps, batch = done.shape
        if not jax.tree.leaves(carry):
            # The steps are independent: one flat batch makes each layer one matrix product.
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), observations)
            logits, value, _ = jax.vmap(self, in_axes=(0, None))(flat, carry)
            return logits.reshape(num_steps, batch, -1), value.reshape(num_steps, batch)
        held, narrow = held_in_float32(self)

        def step(
            carry: PyTree[Array], inputs: tuple[PyTree[Array], Bool[Array, " batch"]]
        ) -> tuple[PyTree[Array], tuple[Array, Array]]:
            observation, ended = inputs
            logits, value, carry = jax.vmap(narrow(held))(observation, carry)
            return start_anew(carry, self.initial_carry(), ended), (logits, value)

        _, (logits, value) = jax.lax.scan(step, carry, (observations, done))
        return logits, value


def start_anew(
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
