"""Ring buffers on the device: arrays `[num_envs, length, ...]`.

All environments are written together, so they share `slot`, the slot of the next entry, and
`filled`, the number of entries of each. Entries 6 and 7 in a full ring at slot 2 give
`[4 5 2 3] -> [4 5 6 7]`, and `slot` becomes 0.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32

from hackmatrix_rl.system.errors import ArgumentError

Scalar = Int32[Array, ""]


def check_capacity(buffer_size: int, **update: int) -> None:
    """Raises an ArgumentError if a buffer is smaller than an update, the product of its sizes."""
    positions, named = math.prod(update.values()), " x ".join(f"{{{name}}}" for name in update)
    if buffer_size < positions:
        raise ArgumentError(
            f"{{buffer_size}} is less than the {positions} positions of an update ({named}); use "
            f"{{buffer_size:={positions}}} or more",
            buffer_size=buffer_size,
            **update,
        )


def empty_ring(entry: Any, num_envs: int, length: int) -> Any:
    """A ring of zeros for entries like `entry`, a tree of arrays or shapes."""
    return jax.tree.map(lambda leaf: jnp.zeros((num_envs, length, *leaf.shape), leaf.dtype), entry)


def write_ring(ring: Any, entries: Any, slot: Scalar) -> Any:
    """The ring with new entries, `[num_envs, count, ...]`, from `slot` on.

    `count` must divide `length` and `slot`.
    """
    return jax.tree.map(
        lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, slot, axis=1), ring, entries
    )


def advance_ring(slot: Scalar, filled: Scalar, count: int, length: int) -> tuple[Scalar, Scalar]:
    """The next `slot` and `filled`, after `count` entries."""
    return (slot + count) % length, jnp.minimum(filled + count, length)


def oldest_slot(slot: Scalar, filled: Scalar, length: int) -> Scalar:
    """The slot of the oldest entry."""
    return jnp.where(filled == length, slot, 0)
