"""Evaluators apply a network to batches: step by step in acting, on sequences in learning.

An evaluator computes the same function as the network's call, so a network defines it only once.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
    reset_carry,
)
from hackmatrix_rl.agent.networks._added_heads import AuxiliaryHead
from hackmatrix_rl.agent.precision import accumulate_in_float32
from hackmatrix_rl.system.batching import is_dense

Step = tuple[
    Float32[Array, "batch num_parameters"], Float32[Array, " batch"], PyTree[Array], PyTree[Array]
]
Outputs = tuple[Float32[Array, "num_steps batch num_parameters"], Float32[Array, "num_steps batch"]]
Hidden = Float[Array, "num_steps batch width"]
Done = Bool[Array, "num_steps batch"]


class Evaluator(eqx.Module):
    """Applies a network, `policy`, to batches of environments."""

    policy: eqx.AbstractVar[ActorCritic]

    def init_cache(self, observations: PyTree[Array]) -> PyTree[Array]:
        """The cache that `act_step` needs for the first observations; by default `()`."""
        return ()

    def act_step(
        self, observations: PyTree[Array], carry: PyTree[Array], cache: PyTree[Array]
    ) -> Step:
        """Calls the network on a batch, for one step of a rollout; by default by `jax.vmap`.

        Args:
            observations: each leaf `[batch, ...]`.
            carry: the memory, each leaf `[batch, ...]`.
            cache: the next cache of the previous step, or `init_cache` of the first observations.
                It saves work; outputs do not depend on it. It is valid only for the same network
                with the same parameters.

        Returns:
            Logits, values, the next carry, and the next cache.
        """
        return *jax.vmap(self.policy)(observations, carry), cache

    @abstractmethod
    def unroll(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Outputs:
        """Evaluates full sequences, as the collector stored them.

        Args:
            observations: each leaf `[num_steps, batch, ...]`.
            carry: the memory before the first step; each leaf `[batch, ...]`.
            done: whether an episode ended with the action of a step, which resets the memory.

        Returns:
            Logits and values of every step.
        """


class TrunkEvaluator(Evaluator):
    """Applies a network with a trunk, and gives access to the trunk's output."""

    policy: eqx.AbstractVar[TrunkActorCritic]
    #: The head of an auxiliary loss, if the network has one.
    auxiliary: eqx.AbstractVar[AuxiliaryHead | None]

    @abstractmethod
    def unroll_trunk(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Hidden:
        """Applies the trunk to full sequences; arguments as in `unroll`."""

    @final
    def apply_heads(self, hidden: Hidden) -> Outputs:
        """Logits and values from the result of `unroll_trunk`."""
        return jax.vmap(jax.vmap(self.policy.heads))(hidden)

    @final
    def value_loss(
        self, hidden: Hidden, targets: Float32[Array, "num_steps batch"]
    ) -> Float32[Array, "num_steps batch"] | None:
        """The loss of a `ValueHead` on the result of `unroll_trunk`; `None` for a scalar head."""
        return jax.vmap(jax.vmap(self.policy.heads.value_loss))(hidden, targets)

    @final
    def unroll(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Outputs:
        return self.apply_heads(self.unroll_trunk(observations, carry, done))


@final
class PlainEvaluator(Evaluator):
    """Calls the network: on one flat batch if it has no memory, else step by step."""

    policy: ActorCritic
    #: Whether `unroll` runs step by step and keeps only each step's input for the gradient, which
    #: recomputes the rest.
    recompute: bool = eqx.field(static=True, default=False)

    def unroll(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Outputs:
        call, initial = self._apply, self.policy.initial_carry()
        return unroll_steps(call, initial, observations, carry, done, recompute=self.recompute)

    def _apply(self, observation: PyTree[Array], carry: PyTree[Array]) -> Any:
        logits, value, carry = self.policy(observation, carry)
        return (logits, value), carry


@final
class PlainTrunkEvaluator(TrunkEvaluator):
    """`PlainEvaluator` for a network with a trunk."""

    policy: TrunkActorCritic
    auxiliary: AuxiliaryHead | None = None
    recompute: bool = eqx.field(static=True, default=False)

    def unroll_trunk(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Hidden:
        trunk, initial = self.policy.trunk, self.policy.initial_carry()
        return unroll_steps(trunk, initial, observations, carry, done, recompute=self.recompute)


@final
class RecurrentEvaluator(TrunkEvaluator):
    """Moves the part of a recurrent network that needs no memory out of the loop over steps."""

    policy: RecurrentActorCritic
    auxiliary: AuxiliaryHead | None = None

    def unroll_trunk(self, observations: PyTree[Array], carry: PyTree[Array], done: Done) -> Hidden:
        driven = jax.vmap(jax.vmap(self.policy.drive))(observations)
        return unroll_steps(self.policy.advance, self.policy.initial_carry(), driven, carry, done)


def unroll_steps(
    call: Callable[[PyTree[Array], PyTree[Array]], tuple[Any, PyTree[Array]]],
    initial: PyTree[Array],
    observations: PyTree[Array],
    carry: PyTree[Array],
    done: Done,
    *,
    recompute: bool = False,
) -> Any:
    """Applies a recurrent function to full sequences of a batch, as `Evaluator.unroll` does.

    `call` is a module, or a method of one, that maps one observation and a carry to an output and
    the next carry; `initial` is the carry at the start of an episode. `recompute` runs step by step
    even without memory, and keeps only each step's input for the gradient.

    Returns:
        The outputs; each leaf `[num_steps, batch, ...]`.
    """
    num_steps, batch = done.shape
    if not recompute and not jax.tree.leaves(carry):
        # The steps are independent: one flat batch makes each layer one matrix product.
        if is_dense():
            # This runs within one device: no transposition, which costs a TPU as much as a layer.
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), observations)
            output, _ = jax.vmap(call, in_axes=(0, None))(flat, carry)
            return jax.tree.map(
                lambda leaf: leaf.reshape(num_steps, batch, *leaf.shape[1:]), output
            )
        # Environments first: the flat batch keeps their sharding.
        output, _ = jax.vmap(call, in_axes=(0, None))(flat_rows(observations), carry)
        return jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf.reshape(batch, num_steps, *leaf.shape[1:]), 0, 1), output
        )

    wide, narrow = accumulate_in_float32(call)

    def step(carry: PyTree[Array], inputs: tuple[PyTree[Array], Array]) -> tuple[Any, Any]:
        observation, ended = inputs
        output, carry = jax.vmap(narrow(wide), axis_size=batch)(observation, carry)
        return reset_carry(carry, initial, ended), output

    if recompute:
        # The backward pass is a separate loop, so a compiler cannot merge the two computations.
        step = jax.checkpoint(step, prevent_cse=False)
    return jax.lax.scan(step, carry, (observations, done))[1]


def flat_rows(sequences: PyTree[Array]) -> PyTree[Array]:
    """`[num_steps, batch, ...] -> [batch * num_steps, ...]`, environment by environment."""
    return jax.tree.map(
        lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), sequences
    )
