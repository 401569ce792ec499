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

VICTORY = "victory"
"""The part of the reward that is above 0 exactly where an episode is won."""


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
        """The heads of the network without the auxiliary head."""
        return self.headless.heads

    def initial_carry(self) -> PyTree[Array]:
        """The initial carry of the network."""
        return self.headless.initial_carry()

    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The trunk of the network."""
        return self.headless.trunk(observation, carry)


def add_auxiliary_head(
    policy: ActorCritic, spec: EnvSpec, *, wins: bool = False, key: Key[Array, ""]
) -> WithAuxiliaryHead:
    """The policy with a head that predicts what an action will bring (see `AuxiliaryLoss`).

    Args:
        policy: acts as before; none of its numbers change.
        spec: of the environment.
        wins: whether the head also predicts the victory; the parts of the reward then have one
            of the name `victory`.
        key: randomness of the head's weights.

    Raises:
        ValueError: the policy's hidden layer is not open, the reward has no parts, or none of
            them is the victory's.
    """
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is no TrunkActorCritic, whose hidden layer others may look at"
        )
    if not spec.terms:
        raise ValueError("the environment's spec names no parts of the reward")
    if wins and VICTORY not in spec.terms:
        raise ValueError(
            f"the environment's spec names no part of the reward {VICTORY!r}, which tells who won"
        )
    seen = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), spec.observation)
    hidden, _ = eqx.filter_eval_shape(policy.trunk, seen, policy.initial_carry())
    head = AuxiliaryHead(hidden.shape[0], spec.num_actions, len(spec.terms), wins=wins, key=key)
    return WithAuxiliaryHead(policy, head)
