"""The place of each array of a tree on a mesh, and the ways to get it there."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from hackmatrix_rl.errors import is_key
from hackmatrix_rl.system import size_of
from hackmatrix_rl.training.sharding._mesh import FSDP, REPLICATED
from hackmatrix_rl.training.sharding._offload import DEVICE, HOST, on_device

T = TypeVar("T")

# Smaller arrays would save little memory and cost more to gather.
SMALLEST_SPLIT = 4096


def fsdp_spec(shape: tuple[int, ...], parts: int) -> PartitionSpec:
    """The partition spec of a learner's array along `fsdp`.

    Only the shape decides, so the optimizer's moments are cut like their parameter.

    Args:
        shape: shape of the array.
        parts: devices along `fsdp`.

    Returns:
        A spec that cuts the longest axis divisible by `parts` (the first of several). Without
        such an axis, or with fewer than `SMALLEST_SPLIT` elements, the array stays whole.
    """
    divides = [axis for axis, length in enumerate(shape) if length and length % parts == 0]
    if parts == 1 or not divides or int(np.prod(shape)) < SMALLEST_SPLIT:
        return REPLICATED
    longest = max(divides, key=lambda axis: shape[axis])
    return PartitionSpec(*[FSDP if axis == longest else None for axis in range(longest + 1)])


def fsdp_shardings(mesh: Mesh, tree: PyTree) -> PyTree[NamedSharding]:
    """Shardings for a learner or a gradient: cut along `fsdp`, the same along `data`.

    Args:
        mesh: the mesh of the devices.
        tree: arrays, or their shapes.

    Returns:
        A sharding for each array, `None` for other leaves.
    """
    parts = mesh.shape[FSDP]
    return each_array(lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, parts)), tree)


def replicated_shardings(mesh: Mesh, tree: PyTree) -> PyTree[NamedSharding]:
    """Shardings that keep each array whole on every device; `None` for other leaves."""
    return each_array(lambda _: NamedSharding(mesh, REPLICATED), tree)


def bytes_per_device(tree: PyTree) -> int:
    """Bytes that one device holds of a tree of shapes that know their shardings.

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
    placed: T = eqx.combine(jax.lax.with_sharding_constraint(arrays, shardings), rest)
    return placed


def place(tree: T, shardings: PyTree[NamedSharding]) -> T:
    """Copies the arrays of a tree onto a mesh, from any place.

    Every process passes the same values, and keeps the part of its devices.

    Args:
        tree: NumPy arrays, arrays on devices of this process, or arrays on any mesh.
        shardings: sharding of each array.
    """
    arrays, rest = eqx.partition(tree, eqx.is_array)
    placed: T = eqx.combine(jax.tree.map(_place, arrays, shardings), rest)
    return placed


def gather(tree: T, mesh: Mesh) -> T:
    """Copies the arrays of a tree, whole, to this process's default device."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    # Every process takes part if the arrays are cut over several processes.
    whole = jax.jit(lambda arrays: arrays, out_shardings=NamedSharding(mesh, REPLICATED))(arrays)
    local: T = eqx.combine(jax.tree.map(_local, whole), rest)
    return local


def each_array(where: Callable[[Any], NamedSharding], tree: PyTree) -> PyTree[NamedSharding]:
    """A sharding for each array or shape in a tree; `None` for other leaves."""

    def one(leaf: Any) -> NamedSharding | None:
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
    return jax.make_array_from_callback(
        values.shape, sharding, lambda index: np.array(values[index])
    )


def _local(leaf: jax.Array) -> jax.Array:
    if is_key(leaf):
        words = _local(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    return jnp.array(np.asarray(leaf))
