"""The optimizer's state in the memory of the host, and on the device only during its use.

Adam keeps two numbers for each parameter and needs them only for a moment in each gradient step.
In between, activations fill the device, and the host can hold the state.

Source: Ren et al. 2021, "ZeRO-Offload: democratizing billion-scale model training".
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.sharding import NamedSharding
from jaxtyping import PyTree

HOST = "pinned_host"
DEVICE = "device"

T = TypeVar("T")


def memory_kinds(device: jax.Device) -> tuple[str, ...]:
    """The kinds of memory for a device's arrays."""
    return tuple(memory.kind for memory in device.addressable_memories())


def check_offload(device: jax.Device) -> None:
    """Raises a ValueError unless a device can keep arrays in pinned memory of its host."""
    kinds = memory_kinds(device)
    if HOST not in kinds:
        raise ValueError(
            f"no device of kind {device.device_kind} can keep arrays in pinned memory of its host "
            f"(it has {', '.join(kinds) or 'no other memory'})"
        )


def on_host(shardings: PyTree[NamedSharding], tree: PyTree) -> PyTree[NamedSharding]:
    """The same shardings, but in the host's memory.

    Counters stay on the device, because some backends have scalars only there.

    Args:
        shardings: sharding of each array.
        tree: the arrays, or their shapes.
    """

    def one(leaf: Any, sharding: NamedSharding | None) -> NamedSharding | None:
        if sharding is None or not leaf.ndim:
            return sharding
        return sharding.with_memory_kind(HOST)

    arrays = eqx.filter(tree, lambda leaf: hasattr(leaf, "ndim"))
    return jax.tree.map(one, arrays, shardings)


def move(tree: T, shardings: PyTree[NamedSharding]) -> T:
    """Inside a compiled program: moves the arrays of a tree to the memory of their shardings.

    Args:
        tree: a tree of arrays; counters stay where they are.
        shardings: sharding of each array.
    """
    arrays, rest = eqx.partition(tree, eqx.is_array)
    moved: T = eqx.combine(jax.tree.map(_move, arrays, shardings), rest)
    return moved


def _move(leaf: jax.Array, sharding: NamedSharding) -> jax.Array:
    return jax.device_put(leaf, sharding) if leaf.ndim else leaf


def on_device(leaf: jax.Array) -> jax.Array:
    """An array in a device's own memory; a copy only if it lies on the host."""
    if leaf.sharding.memory_kind != HOST:
        return leaf
    return jax.device_put(leaf, leaf.sharding.with_memory_kind(DEVICE))
