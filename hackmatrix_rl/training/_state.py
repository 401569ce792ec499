"""The state of a learner, and its placement on a mesh."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import parameters_of, path_name
from hackmatrix_rl.training.sharding import fsdp_shardings, on_host

VALUE_HEAD = ".heads.value"
"""Where the names of the value head's parameters begin."""

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")


class Learner(eqx.Module):
    """The policy, and the state that changes with it.

    Attributes:
        policy: the network, its parameters in float32.
        optimizer_state: of the optimizer, for the policy's parameters.
        value_scale: units of the network's value.
        scaling: state of the loss scaling; `()` without one.
        skipped: gradient steps that were not taken because a gradient was not finite.
    """

    policy: ActorCritic
    optimizer_state: PyTree[Array]
    value_scale: ValueScale
    scaling: PyTree[Array]
    skipped: Int32[Array, ""]

    def step(
        self,
        optimizer: optax.GradientTransformation,
        gradient: PyTree[Array],
        learning_rate: Float32[Array, ""],
        *,
        take: Bool[Array, ""],
        critic_only: Bool[Array, ""] | None = None,
    ) -> "Learner":
        """The learner after a gradient step.

        Args:
            optimizer: turns the gradient into a change of the parameters.
            gradient: of the loss, shaped like the policy.
            learning_rate: factor on the optimizer's change.
            take: whether to take the step; if not, nothing changes.
            critic_only: whether only the value head changes. The optimizer sees the whole
                gradient all the same: its averages must not start from 0 when the rest follows.
                `None`: everything learns.
        """
        parameters = parameters_of(self.policy)
        # Optax relies on implicit promotion of dtypes, which our own code does not.
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimizer.update(gradient, self.optimizer_state, parameters)
        if critic_only is not None:
            change = _only_value_head(change, critic_only)
        change = jax.tree.map(lambda leaf: jnp.where(take, learning_rate * leaf, 0.0), change)
        stepped: Learner = eqx.tree_at(
            lambda learner: (learner.policy, learner.optimizer_state),
            self,
            (
                eqx.apply_updates(self.policy, change),
                jax.tree.map(partial(jnp.where, take), state, self.optimizer_state),
            ),
        )
        return stepped


def learner_shardings(
    mesh: Mesh, learner: Learner, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """The shardings of a learner between two gradient steps.

    Args:
        mesh: of the devices.
        learner: arrays, or their shapes.
        offload: whether the optimizer's state lies in the hosts' memory.

    Returns:
        A sharding for each array, `None` for what is none.
    """
    shardings = fsdp_shardings(mesh, learner)
    if not offload:
        return shardings
    moved: PyTree[NamedSharding] = eqx.tree_at(
        lambda learner: learner.optimizer_state,
        shardings,
        on_host(shardings.optimizer_state, learner.optimizer_state),
    )
    return moved


def is_value_head(name: str) -> bool:
    """Whether the parameter with this name (see `path_name`) belongs only to the value head."""
    return name.startswith(VALUE_HEAD)


def _only_value_head(change: X, critic_only: Bool[Array, ""]) -> X:
    """The change with zeros outside of the value head, where `critic_only`."""

    def one(path: Any, leaf: Array) -> Array:
        return leaf if is_value_head(path_name(path)) else jnp.where(critic_only, 0.0, leaf)

    masked: X = jax.tree_util.tree_map_with_path(one, change)
    return masked


def filter_scan(body: Callable[[C, X], tuple[C, Y]], initial: C, inputs: X) -> tuple[C, Y]:
    """`jax.lax.scan` with a carry that may hold more than arrays (a network's functions, say).

    Args:
        body: from a carry and one input to the next carry and one output.
        initial: the first carry. Its arrays change, the rest stays.
        inputs: arrays with a leading axis to go along.

    Returns:
        The last carry, and the outputs stacked.
    """
    arrays, rest = eqx.partition(initial, eqx.is_array)

    def array_body(arrays: Any, inputs: X) -> tuple[Any, Y]:
        carry, output = body(eqx.combine(arrays, rest), inputs)
        return eqx.filter(carry, eqx.is_array), output

    arrays, outputs = jax.lax.scan(array_body, arrays, inputs)
    carry: C = eqx.combine(arrays, rest)
    return carry, outputs
