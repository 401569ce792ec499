"""A network with a head for an auxiliary loss beside its own."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic
from hackmatrix_rl.agent.networks._auxiliary_head import AuxiliaryHead
from hackmatrix_rl.agent.networks._layers import Heads
from hackmatrix_rl.agent.networks._trunk import TrunkActorCritic
from hackmatrix_rl.env import EnvSpec


@final
class WithAuxiliaryHead(TrunkActorCritic):
    """A network, and a further head that acting does not use (see `AuxiliaryLoss`).

    Attributes:
        auxiliary: the head.
        headless: the network without this head. The names of parameters leave this field out
            (see `path_name`), so they do not change with the head.
    """

    auxiliary: AuxiliaryHead
    headless: TrunkActorCritic

    def __init__(self, headless: TrunkActorCritic, auxiliary: AuxiliaryHead) -> None:
        """Wraps a network.

        Args:
            headless: the network.
            auxiliary: its further head.
        """
        self.auxiliary = auxiliary
        self.headless = headless

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def heads(self) -> Heads:  # type: ignore[override]
        """The network's."""
        return self.headless.heads

    def initial_carry(self) -> PyTree[Array]:
        """The network's."""
        return self.headless.initial_carry()

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The network's."""
        return self.headless.trunk(observation, carry)


def add_auxiliary_head(
    policy: ActorCritic, spec: EnvSpec, *, key: Key[Array, ""]
) -> WithAuxiliaryHead:
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
    return WithAuxiliaryHead(
        policy, AuxiliaryHead(hidden.shape[0], spec.num_actions, len(spec.terms), key=key)
    )
