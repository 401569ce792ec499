"""Copies of checkpoints that are small: enough to play, and to start a training from."""

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

from hackmatrix_rl.checkpoints._manifest import write_manifest
from hackmatrix_rl.checkpoints._metadata import METADATA, read_metadata
from hackmatrix_rl.checkpoints._reader import VALUE_SCALE, absolute, read_arrays
from hackmatrix_rl.system import write_json

_PRIVATE = ("run_dir", "checkpoint_dir")
"""Settings that are paths on the machine of the training."""


def trim_checkpoint(source: epath.PathLike, target: epath.PathLike) -> int:
    """Copies a checkpoint without what only a resume needs: optimizer, environments, paths.

    Args:
        source: folder of the checkpoint.
        target: a folder that does not exist yet.

    Returns:
        The size of the copy in bytes.

    Raises:
        ConfigError: the checkpoint cannot be read.
        ValueError: the target exists.
    """
    there, place = epath.Path(source), absolute(target)
    metadata = read_metadata(there)
    stored = {
        "policy": read_arrays(there, "policy"),
        "training": read_arrays(there, "training", under=VALUE_SCALE),
    }
    handlers = {name: ocp.StandardCheckpointHandler() for name in stored}
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler(**handlers)) as checkpointer:
        items = {
            name: ocp.args.StandardSave(jax.tree.map(jnp.asarray, dict(part.arrays)))
            for name, part in stored.items()
        }
        checkpointer.save(place, ocp.args.Composite(**items))
    metadata["random_keys"] = {name: dict(part.keys) for name, part in stored.items()}
    metadata["config"] |= dict.fromkeys(_PRIVATE)
    if metadata["config"].get("init") is not None:  # a training with a teacher must have one
        metadata["config"]["init"] = epath.Path(metadata["config"]["init"]).name
    metadata["run"] = {}
    write_json(epath.Path(place) / METADATA, metadata)
    # Orbax notes in these where it saved to. They are read from cloud storage alone.
    for folder in ("", *stored):
        (epath.Path(place) / folder / "commit_success.txt").unlink(missing_ok=True)
    return write_manifest(epath.Path(place))
