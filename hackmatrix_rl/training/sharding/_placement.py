"""Shardings of the arrays of a tree on a mesh, and functions that move arrays to them.

Adam has two moments for each parameter, which are needed only at the end of a gradient step. With
offloading, they are in the memory of the host while activations fill the device.

Source: Ren et al. 2021, "ZeRO-Offload: democratizing billion-scale model training".
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from hackmatrix_rl.system import size_of
from hackmatrix_rl.system.errors import is_key
from hackmatrix_rl.training.sharding._mesh import FSDP, REPLICATED

HOST = "pinned_host"
DEVICE = "device"

S = TypeVar("S")
T = TypeVar("T")


def memory_kinds(device: jax.Device) -> tuple[str, ...]:
    """The kinds of memory that a device can address."""
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
    """The same shardings, in pinned memory of the host.

    Scalars stay on the device, because some backends do not support them on the host.
    """

    def one(leaf: Any, sharding: NamedSharding | None) -> NamedSharding | None:
        if sharding is None or not leaf.ndim:
            return sharding
        return sharding.with_memory_kind(HOST)

    arrays = eqx.filter(tree, lambda leaf: hasattr(leaf, "ndim"))
    return jax.tree.map(one, arrays, shardings)


def move(tree: T, shardings: PyTree[NamedSharding]) -> T:
    """Inside a compiled program: moves arrays except scalars to their shardings."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    moved = jax.tree.map(
        lambda leaf, sharding: jax.device_put(leaf, sharding) if leaf.ndim else leaf,
        arrays,
        shardings,
    )
    return eqx.combine(moved, rest)


def on_device(leaf: jax.Array) -> jax.Array:
    """An array in a device's own memory; copied only if it is in the host's."""
    if leaf.sharding.memory_kind != HOST:
        return leaf
    return jax.device_put(leaf, leaf.sharding.with_memory_kind(DEVICE))


# Sharding smaller arrays saves little memory, and gathering them costs more.
SMALLEST_SPLIT = 4096


def fsdp_spec(shape: tuple[int, ...], parts: int) -> PartitionSpec:
    """The partition spec of a learner's array along an axis `fsdp` of length `parts`.

    It depends only on the shape, so the optimizer's moments are sharded like their parameter. The
    longest axis divisible by `parts` is sharded (the first of several). Without such an axis, or
    with fewer than `SMALLEST_SPLIT` elements, the array is replicated. With 4 parts,
    `(512, 1024) -> P(None, "fsdp")` and `(512,) -> P()`.
    """
    divides = [axis for axis, length in enumerate(shape) if length and length % parts == 0]
    if parts == 1 or not divides or int(np.prod(shape)) < SMALLEST_SPLIT:
        return REPLICATED
    longest = max(divides, key=lambda axis: shape[axis])
    return PartitionSpec(*[FSDP if axis == longest else None for axis in range(longest + 1)])


def fsdp_shardings(mesh: Mesh, tree: PyTree) -> PyTree[NamedSharding]:
    """Shardings of a learner or a gradient: sharded along `fsdp`, replicated along `data`.

    `None` for leaves that are neither arrays nor shapes.
    """
    parts = mesh.shape[FSDP]
    return each_array(lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, parts)), tree)


def replicated_shardings(mesh: Mesh, tree: PyTree) -> PyTree[NamedSharding]:
    """Shardings that replicate each array on every device; `None` for other leaves."""
    return each_array(lambda _: NamedSharding(mesh, REPLICATED), tree)


def bytes_per_device(tree: PyTree) -> int:
    """Bytes on one device of a tree of shapes with shardings.

    Arrays in the host's memory are left out.
    """
    total = 0
    for leaf in jax.tree.leaves(tree):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            continue
        if getattr(leaf.sharding, "memory_kind", None) != HOST:
            cut = leaf.shape if leaf.sharding is None else leaf.sharding.shard_shape(leaf.shape)
            total += size_of(cut, leaf.dtype)
    return total


def constrain(tree: T, shardings: PyTree[NamedSharding]) -> T:
    """Inside a compiled program: constrains the arrays of a tree to shardings."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.with_sharding_constraint(arrays, shardings), rest)


def place(tree: T, shardings: PyTree[NamedSharding]) -> T:
    """Copies the arrays of a tree (NumPy, or JAX on any devices) onto a mesh.

    Every process passes the same values, and keeps the shards of its devices.
    """
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(_place, arrays, shardings), rest)


def gather(tree: T, mesh: Mesh) -> T:
    """Copies the arrays of a tree, unsharded, to this process's default device."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    # A collective: every process must call it if the arrays are sharded over several processes.
    whole = jax.jit(lambda arrays: arrays, out_shardings=NamedSharding(mesh, REPLICATED))(arrays)
    return eqx.combine(jax.tree.map(_local, whole), rest)


def each_array(where: Callable[[Any], S], tree: PyTree) -> PyTree[S]:
    """A sharding or spec for each array or shape in a tree; `None` for other leaves."""

    def one(leaf: Any) -> S | None:
        has_shape = eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
        return where(leaf) if has_shape else None

    return jax.tree.map(one, tree)


def _place(leaf: jax.Array | np.ndarray, sharding: NamedSharding) -> jax.Array:
    is_ours = sharding.is_fully_addressable
    if isinstance(leaf, jax.Array) and (is_ours or not leaf.is_fully_addressable):
        # A copy, because training overwrites the arrays on the mesh. `device_put` can share
        # buffers on the same device, even with `may_alias=False`.
        copied = jnp.copy(jax.device_put(on_device(leaf), sharding.with_memory_kind(DEVICE)))
        return jax.device_put(copied, sharding)
    if isinstance(leaf, jax.Array) and is_key(leaf):
        words = _from_host(np.asarray(jax.random.key_data(leaf)), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    return _from_host(np.asarray(leaf), sharding)


def _from_host(values: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(values.shape, sharding, lambda at: np.array(values[at]))


def _local(leaf: jax.Array) -> jax.Array:
    if is_key(leaf):
        words = _local(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    return jnp.array(np.asarray(leaf))
