"""Networks whose policy and value look at one hidden layer."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    unroll_steps,
)
from hackmatrix_rl.agent.networks._auxiliary_head import AuxiliaryHead
from hackmatrix_rl.agent.networks._layers import Heads
from hackmatrix_rl.env import EnvSpec


class TrunkActorCritic(ActorCritic):
    """A trunk, and heads for logits and value on top of it.

    What the heads look at is open to others: an auxiliary loss learns from the same hidden
    layer. A subclass has `heads`, and says `trunk` instead of `__call__`.

    Attributes:
        heads: logits and value.
        auxiliary: a further head that acting has no use for (see `AuxiliaryLoss`); `None`
            unless it was asked for.
    """

    heads: eqx.AbstractVar[Heads]
    auxiliary: AuxiliaryHead | None = eqx.field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses a class whose `unroll` would not do what its call does."""
        super().__init_subclass__(**options)
        if "__call__" in vars(cls):
            raise TypeError(f"{cls.__name__}: a TrunkActorCritic says `trunk`, not `__call__`")

    @abstractmethod
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """What the heads look at, and the next carry; arguments as those of a call."""

    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Logits, value and the next carry."""
        hidden, carry = self.trunk(observation, carry)
        logits, value = self.heads(hidden)
        return logits, value, carry

    def unroll_trunk(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> Float[Array, "num_steps batch width"]:
        """The trunk over whole sequences; arguments as those of `unroll`.

        A network may replace this by something faster that computes the same.
        """
        hidden: Float[Array, "num_steps batch width"] = unroll_steps(
            self.trunk, self.initial_carry(), observations, carry, done
        )
        return hidden

    def apply_heads(
        self, hidden: Float[Array, "num_steps batch width"]
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """The heads over what `unroll_trunk` gave: logits and values."""
        logits, value = jax.vmap(jax.vmap(self.heads))(hidden)
        return logits, value

    def unroll(
        self,
        observations: PyTree[Array],
        carry: PyTree[Array],
        done: Bool[Array, "num_steps batch"],
    ) -> tuple[Float32[Array, "num_steps batch num_actions"], Float32[Array, "num_steps batch"]]:
        """Logits and values over whole sequences."""
        return self.apply_heads(self.unroll_trunk(observations, carry, done))


class PlainTrunk(TrunkActorCritic):
    """A policy whose sequences are evaluated by its trunk alone: without what makes that faster.

    Attributes:
        policy: the policy.
        heads: its heads.
    """

    policy: TrunkActorCritic
    heads: Heads

    def __init__(self, policy: TrunkActorCritic) -> None:
        """Wraps a policy."""
        self.policy = policy
        self.heads = policy.heads
        self.auxiliary = policy.auxiliary

    def initial_carry(self) -> PyTree[Array]:
        """That of the policy."""
        return self.policy.initial_carry()

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """That of the policy."""
        return self.policy.trunk(observation, carry)


def add_auxiliary_head(
    policy: ActorCritic, spec: EnvSpec, *, key: Key[Array, ""]
) -> TrunkActorCritic:
    """The policy with a head that predicts what an action will bring (see `AuxiliaryLoss`).

    Args:
        policy: acts as before; none of its numbers change.
        spec: of the environment.
        key: randomness of the head's weights.

    Raises:
        ValueError: the policy's hidden layer is not open, or the reward has no parts.
    """
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is no TrunkActorCritic, whose hidden layer others may look at"
        )
    if not spec.terms:
        raise ValueError("the environment's spec names no parts of the reward")
    seen = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), spec.observation)
    hidden, _ = eqx.filter_eval_shape(policy.trunk, seen, policy.initial_carry())
    head = AuxiliaryHead(hidden.shape[0], spec.num_actions, len(spec.terms), key=key)
    # Not `tree_at`, nor the constructor: a network that never set the field has no place for it
    # in its tree, and its constructor takes other arguments.
    added = object.__new__(type(policy))
    for name, value in {**vars(policy), "auxiliary": head}.items():
        object.__setattr__(added, name, value)
    return added
