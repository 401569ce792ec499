"""Checkpoints to publish: enough to play, without the parts for a resume and without paths."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from hackmatrix_rl.runs.checkpoints._arrays import VALUE_SCALE, check_written, read_arrays
from hackmatrix_rl.runs.checkpoints._manifest import write_manifest
from hackmatrix_rl.runs.checkpoints._metadata import METADATA, read_metadata
from hackmatrix_rl.runs.checkpoints._place import orbax_context, place
from hackmatrix_rl.system import write_json, write_whole
from hackmatrix_rl.training import Stored

COMMITTED = "commit_success.txt"
"""Orbax's sign of a complete checkpoint. The manifest is that of this package."""

_PRIVATE = ("run_dir", "checkpoint_dir")
"""Settings that are paths on the machine of the training."""


@dataclass(frozen=True)
class Trimmed:
    """What a published checkpoint has.

    Attributes:
        metadata: the metadata, without the run and paths of the training.
        parts: the arrays: all of `policy`, and of `training` the value scale.
    """

    metadata: dict[str, Any]
    parts: Mapping[str, Stored]


def trimmed(source: epath.PathLike) -> Trimmed:
    """A checkpoint without optimizer, environments and paths.

    Raises:
        ConfigError: the checkpoint cannot be read.
    """
    there = epath.Path(source)
    metadata = read_metadata(there)
    parts = {"policy": "", "training": VALUE_SCALE}
    stored = {name: read_arrays(there, name, under=under) for name, under in parts.items()}
    metadata["random_keys"] = {name: dict(part.keys) for name, part in stored.items()}
    metadata["config"] |= dict.fromkeys(_PRIVATE)
    if metadata["config"].get("init") is not None:  # a training with a teacher must have one
        metadata["config"]["init"] = epath.Path(metadata["config"]["init"]).name
    metadata["run"] = {}
    return Trimmed(metadata, stored)


def write_trimmed(found: Trimmed, target: epath.PathLike) -> int:
    """Writes a checkpoint into a new folder, and returns its size in bytes.

    Raises:
        FileExistsError: the folder exists.
    """
    from orbax.checkpoint import v1 as ocp  # half a second, and few commands need it

    copy = place(target)
    if copy.exists():  # Orbax's error would leave a coroutine that nothing awaits
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(copy))
    arrays = {
        name: jax.tree.map(jnp.asarray, dict(part.arrays)) for name, part in found.parts.items()
    }
    with orbax_context(copy):
        ocp.save_checkpointables(copy, arrays)
    write_json(copy / METADATA, found.metadata)
    # In a bucket, Orbax takes a folder without this file for one that is still being written. It
    # writes the path of the folder into it, which is private; only the file's presence counts.
    write_whole(copy / COMMITTED, "This checkpoint is complete.\n")
    check_written(copy, arrays)
    return write_manifest(copy)


def trim_checkpoint(
    source: epath.PathLike, target: epath.PathLike, *, rounded: bool = False
) -> int:
    """Copies a checkpoint as `trimmed`. Returns the size of the copy in bytes.

    `rounded` weights have the 8 significant bits of bfloat16 in their own dtype; compressed, they
    take half the space.
    """
    found = trimmed(source)
    if rounded:
        policy = found.parts["policy"]
        arrays = {name: _rounded(array) for name, array in policy.arrays.items()}
        found = replace(found, parts={**found.parts, "policy": replace(policy, arrays=arrays)})
    return write_trimmed(found, target)


def _rounded(array: np.ndarray) -> np.ndarray:
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    return array.astype(jnp.bfloat16).astype(array.dtype)
