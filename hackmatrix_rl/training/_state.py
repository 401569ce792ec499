"""The state of a learner, and its placement on a mesh."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    each_array,
    fsdp_shardings,
    on_host,
    replicated_shardings,
)

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


def state_shardings(
    mesh: Mesh, state: PyTree, *, networks: tuple[str, ...] = (), offload: bool = False
) -> PyTree[NamedSharding]:
    """Where the arrays of an algorithm's state lie between two updates.

    The learner is cut along `fsdp`, the arrays of `actors` along their environments. Everything
    else lies whole on each device.

    Args:
        mesh: of the devices.
        state: arrays, or their shapes; with a `learner` and `actors`.
        networks: names of further fields that are cut as the learner.
        offload: whether the optimizer's state lies in the hosts' memory.
    """
    by_environment, whole = (NamedSharding(mesh, spec) for spec in (BY_ENVIRONMENT, REPLICATED))
    cut = {
        "learner": learner_shardings(mesh, state.learner, offload=offload),
        "actors": each_array(lambda leaf: by_environment if leaf.ndim else whole, state.actors),
        **{name: fsdp_shardings(mesh, getattr(state, name)) for name in networks},
    }
    shardings: PyTree[NamedSharding] = eqx.tree_at(
        lambda state: [getattr(state, name) for name in cut],
        replicated_shardings(mesh, state),
        list(cut.values()),
        is_leaf=lambda node: node is None,
    )
    return shardings


def scan_and_sum(body: Callable[[C, X], tuple[C, Y]], initial: C, inputs: X) -> tuple[C, Y]:
    """`jax.lax.scan` with a carry that may hold more than arrays (a network's functions, say).

    Args:
        body: from a carry and one input to the next carry and one output.
        initial: the first carry. Its arrays change, the rest stays.
        inputs: arrays with a leading axis to go along.

    Returns:
        The last carry, and the sum of the outputs.
    """
    arrays, rest = eqx.partition(initial, eqx.is_array)

    def array_body(arrays: Any, inputs: X) -> tuple[Any, Y]:
        carry, output = body(eqx.combine(arrays, rest), inputs)
        return eqx.filter(carry, eqx.is_array), output

    arrays, outputs = jax.lax.scan(array_body, arrays, inputs)
    carry: C = eqx.combine(arrays, rest)
    return carry, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), outputs)
