"""The same function on each device of a mesh, with the device's own environments."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from hackmatrix_rl.training.sharding._mesh import BY_ENVIRONMENT, REPLICATED


def on_each_device(
    mesh: Mesh,
    function: Callable[..., Any],
    modules: tuple[Any, ...],
    given: Any,
    *,
    takes: Any = None,
    returns: Any = BY_ENVIRONMENT,
) -> Any:
    """Calls a function on each device. The devices send nothing while it runs.

    Args:
        mesh: the devices.
        function: of the modules, and of a device's part of `given`.
        modules: whole on each device. They may hold more than arrays.
        given: arrays that are cut over the devices.
        takes: how `given` is cut; `None`: each array along its first axis, scalars not at all.
        returns: how the results are put together; by default along their first axes.
    """
    if takes is None:
        takes = jax.tree.map(lambda leaf: BY_ENVIRONMENT if leaf.ndim else REPLICATED, given)
    arrays, code = eqx.partition(modules, eqx.is_array)

    def on_one(arrays: Any, given: Any) -> Any:
        return function(*eqx.combine(arrays, code), given)

    mapped = jax.shard_map(
        on_one,
        mesh=mesh,
        in_specs=(REPLICATED, takes),
        out_specs=returns,
        check_vma=False,  # the specs say what varies over devices
    )
    return mapped(arrays, given)
