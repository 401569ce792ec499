"""The policy, and the state that changes with it."""

import equinox as eqx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import split_trainable
from hackmatrix_rl.training.sharding import fsdp_shardings, on_host

VALUE_HEAD = ".heads.value"
"""Where the names of the value head's parameters begin."""


class Learner(eqx.Module):
    """The policy, and the state that changes with it.

    Attributes:
        policy: the network, its parameters in float32.
        optimizer_state: of the optimizer, for the policy's parameters.
        value_scale: units of the network's value.
        scaling: state of the loss scaling; `()` without one.
        skipped: gradient steps that were not taken because a gradient was not finite.
        average: exponential moving averages of the policy's parameters, in its structure; `None`
            if the gradient step keeps none.
    """

    policy: ActorCritic
    optimizer_state: PyTree[Array]
    value_scale: ValueScale
    scaling: PyTree[Array]
    skipped: Int32[Array, ""]
    average: PyTree[Array] | None = None

    @property
    def played(self) -> ActorCritic:
        """The policy to evaluate and to play: with the averages in place of the parameters."""
        if self.average is None:
            return self.policy
        _, rest = split_trainable(self.policy)
        averaged: ActorCritic = eqx.combine(self.average, rest)
        return averaged


def learner_shardings(
    mesh: Mesh, learner: Learner, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """The shardings of a learner between two gradient steps; `None` for what is no array.

    `offload` puts the optimizer's state into the hosts' memory.
    """
    shardings = fsdp_shardings(mesh, learner)
    if not offload:
        return shardings
    return eqx.tree_at(
        lambda learner: learner.optimizer_state,
        shardings,
        on_host(shardings.optimizer_state, learner.optimizer_state),
    )


def is_value_head(name: str) -> bool:
    """Whether the parameter with this name (see `path_name`) belongs only to the value head."""
    return name.startswith(VALUE_HEAD)
