"""Where on a mesh each array of the training state lies."""

import equinox as eqx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import PyTree

from hackmatrix_rl.training._state import Learner, TrainState
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    each_array,
    fsdp_shardings,
    on_host,
    replicated_shardings,
)


def learner_shardings(
    mesh: Mesh, learner: Learner, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """Where a learner's arrays lie between two gradient steps.

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


def state_shardings(
    mesh: Mesh, state: TrainState, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """Where the arrays of a training state lie between two updates.

    Args:
        mesh: of the devices.
        state: arrays, or their shapes.
        offload: whether the optimizer's state lies in the hosts' memory.

    Returns:
        A sharding for each array, `None` for what is none.
    """
    replicated = NamedSharding(mesh, REPLICATED)
    by_environment = NamedSharding(mesh, BY_ENVIRONMENT)
    # Every leaf of the actors has an axis of environments, but for the number of steps.
    actors = each_array(lambda leaf: by_environment if leaf.ndim else replicated, state.actors)
    shardings: PyTree[NamedSharding] = eqx.tree_at(
        lambda state: (state.learner, state.actors),
        replicated_shardings(mesh, state),
        (learner_shardings(mesh, state.learner, offload=offload), actors),
    )
    if state.teacher is None:
        return shardings
    with_teacher: PyTree[NamedSharding] = eqx.tree_at(
        lambda state: state.teacher, shardings, fsdp_shardings(mesh, state.teacher)
    )
    return with_teacher
