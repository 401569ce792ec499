"""Where the arrays of a training's state lie between two updates."""

from typing import Any

import equinox as eqx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import PyTree

from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    each_array,
    fsdp_shardings,
    on_host,
    replicated_shardings,
)


def learner_shardings(mesh: Mesh, learner: Any, *, offload: bool = False) -> PyTree[NamedSharding]:
    """The shardings of a `Learner` between two gradient steps; `None` for what is no array.

    It is sharded along `fsdp`. `offload` puts the optimizer's state into host memory.
    """
    shardings = fsdp_shardings(mesh, learner)
    if not offload:
        return shardings
    return eqx.tree_at(
        lambda learner: learner.optimizer_state,
        shardings,
        on_host(shardings.optimizer_state, learner.optimizer_state),
    )


def state_shardings(
    mesh: Mesh, state: PyTree, *, networks: tuple[str, ...] = (), offload: bool = False
) -> PyTree[NamedSharding]:
    """The shardings of an algorithm's state between two updates.

    `learner` and the fields named by `networks` are sharded along `fsdp`, the arrays of
    `collector_state` along their environments. Everything else is replicated.

    Args:
        mesh: the devices.
        state: a state with these fields, of arrays or of their shapes.
        networks: names of further fields that hold networks.
        offload: whether the optimizer's state lies in host memory.
    """
    by_environment, whole = (NamedSharding(mesh, spec) for spec in (BY_ENVIRONMENT, REPLICATED))
    sharded = {
        "learner": learner_shardings(mesh, state.learner, offload=offload),
        "collector_state": each_array(
            lambda leaf: by_environment if leaf.ndim else whole, state.collector_state
        ),
        **{name: fsdp_shardings(mesh, getattr(state, name)) for name in networks},
    }
    return eqx.tree_at(
        lambda state: [getattr(state, name) for name in sharded],
        replicated_shardings(mesh, state),
        list(sharded.values()),
        is_leaf=lambda node: node is None,
    )
