"""Checkpoints read.

A checkpoint is a folder named after the update it was made at, with

- `policy`: the arrays of the policy alone, which is all that playing needs;
- `training`: the arrays of the whole training state, random keys and environments included,
  which is all that going on needs;
- `metadata.json`: the format's version, the game, the config, the run, the counters, and which
  arrays are random keys; see `checkpoints/metadata.py`;
- `manifest.json`: written last; see `checkpoints/manifest.py`.

Code is never stored: the config says how to build it. Where that would import a module of
somebody's own, it is done only for those who say that they trust it (docs/security.md).
"""

import dataclasses
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints._arrays import (
    Stored,
    Tree,
)
from hackmatrix_rl.checkpoints._finder import (
    Report,
    find_checkpoint,
)
from hackmatrix_rl.checkpoints._metadata import (
    check_playable,
    read_metadata,
)
from hackmatrix_rl.config import (
    TrainConfig,
    build_policy,
    check_trusted,
    config_from_dict,
)
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import (
    ConfigError,
)


@dataclass(frozen=True)
class Loaded:
    """A trained policy, and what it was trained with.

    Attributes:
        policy: ready to act.
        environment: what it was trained on.
        config: what it was trained with.
        folder: of the checkpoint.
        metadata: as stored beside it: `update`, `counters`, `versions` ...
    """

    policy: ActorCritic
    environment: HackMatrix
    config: TrainConfig
    folder: epath.Path
    metadata: Mapping[str, Any]


def load(
    run: str | Path,
    *,
    policy: ActorCritic | None = None,
    network: str | None = None,
    trust_code: bool = False,
    best: bool = False,
    report: Report = warnings.warn,
) -> Loaded:
    """Loads the newest policy of a run, or that of one checkpoint.

    A damaged checkpoint is named, and the one before it used.

    Args:
        run: a run's folder, its name under `runs/`, a folder of checkpoints (which may be
            remote: `gs://...`), or one checkpoint.
        policy: a network of the same shape to fill in, where the config cannot build it
            because it was composed by hand; its own numbers do not matter. No code that the
            config names is imported then.
        network: what to build in place of the network that the config names; where that is
            `module:factory`, the same again, or what has become of it.
        trust_code: import the `module:factory` that the config names, which runs it: only if
            you trust whoever wrote it.
        best: take the checkpoint with the highest mean return rather than the newest.
        report: is told which checkpoints are damaged and passed over.

    Raises:
        ConfigError: if there is no checkpoint, it is not of this format, game or network, or
            its network is code that nobody said to trust.
    """
    folder = find_checkpoint(run, best=best, report=report)
    metadata = read_metadata(folder)
    check_playable(folder, metadata)
    config = config_from_dict(metadata["config"])
    if network is not None:
        config = dataclasses.replace(config, network=network)
    elif policy is None:
        check_trusted(config, folder, trust_code=trust_code)
    environment = HackMatrix(config.game(), max_steps=config.max_steps)
    if policy is None:
        policy = build_policy(config, environment.spec, key=jax.random.key(0))
    return Loaded(
        policy=_to_device(restore(folder, "policy", policy)),
        environment=environment,
        config=config,
        folder=folder,
        metadata=MappingProxyType(metadata),
    )


def _to_device(policy: ActorCritic) -> ActorCritic:
    """The policy with arrays of JAX, which its own code works on."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, policy
    )


def restore(folder: epath.Path, part: str, like: Tree) -> Tree:
    """A part of a checkpoint as a tree.

    Args:
        folder: of one checkpoint.
        part: `policy` or `training`.
        like: a tree of the same structure; what is not an array is taken from it.

    Returns:
        The tree with arrays in host memory; JAX moves them where they are used.

    Raises:
        ConfigError: if the checkpoint's arrays do not fit it.
    """
    stored = read_arrays(folder, part)
    if (wrong := stored.mismatch(like)) is not None:
        raise ConfigError(f"{folder}: not of this network and these settings: {wrong}.")
    return stored.fill(like)


def read_arrays(folder: epath.Path, part: str) -> Stored:
    """The arrays of a part, in host memory: whatever devices wrote them.

    Args:
        folder: of one checkpoint.
        part: `policy` or `training`.

    Raises:
        ConfigError: if they cannot be read.
    """
    keys = read_metadata(folder)["random_keys"][part]
    place = absolute(folder)
    try:
        arrays = _restored(place, part)
        for name, generator in keys.items():
            jax.eval_shape(partial(jax.random.wrap_key_data, impl=generator), arrays[name])
    except Exception as error:  # Orbax has no one error for what it cannot read
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ConfigError(f"{folder}: its {part} cannot be read: {said}") from error
    return Stored(arrays, keys)


def _restored(folder: epath.Path, part: str) -> dict[str, np.ndarray]:
    """The arrays of a part by name; random keys as their raw words."""
    _check_array_names(folder / part / "_METADATA")
    with _reader() as reader:
        described = reader.metadata(folder).item_metadata[part].tree
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), described)
        arguments = ocp.args.PyTreeRestore(restore_args=as_numpy)
        restored = reader.restore(folder, ocp.args.Composite(**{part: arguments}))[part]
    odd = [name for name, array in restored.items() if not isinstance(array, np.ndarray)]
    if odd:
        raise ValueError(f"{odd[0]!r} is no array")
    return restored


def _check_array_names(file: epath.Path) -> None:
    """Refuses names of arrays that Orbax would make paths out of the checkpoint of."""
    described = json.loads(file.read_text())["tree_metadata"]
    for entry in described.values():
        name = ".".join(str(each["key"]) for each in entry["key_metadata"])
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"the name {name!r} of an array leads out of the checkpoint")


def _reader() -> ocp.Checkpointer:
    return ocp.Checkpointer(
        ocp.CompositeCheckpointHandler(
            policy=ocp.PyTreeCheckpointHandler(),
            training=ocp.PyTreeCheckpointHandler(),
        )
    )


def absolute(folder: epath.PathLike) -> epath.Path:
    """A folder as Orbax takes it, which takes no relative paths; a remote one as it is."""
    text = os.fspath(folder)
    return epath.Path(text if "://" in text else os.path.abspath(text))
