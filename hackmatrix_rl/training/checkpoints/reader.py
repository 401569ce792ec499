"""Checkpoints found, checked and read.

A checkpoint is a folder named after the update it was made at, with

- `policy`: the arrays of the policy alone, which is all that playing needs;
- `training`: the arrays of the whole training state, random keys and environments included,
  which is all that going on needs;
- `metadata.json`: the format's version, the config, the run, the counters, and which arrays
  are random keys;
- `manifest.json`: written last; see `checkpoints/manifest.py`.

Code is never stored: the config says how to build it.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from hackmatrix_rl.agent import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.training.checkpoints.arrays import Stored, Tree
from hackmatrix_rl.training.checkpoints.manifest import NAME as MANIFEST
from hackmatrix_rl.training.checkpoints.manifest import damage
from hackmatrix_rl.training.config import ConfigError, TrainConfig
from hackmatrix_rl.training.policies import build_policy
from hackmatrix_rl.training.settings import config_from_dict

FORMAT = 3
"""Of the checkpoints that are written.

Format 1 had no manifest and no run in its metadata; up to format 2, HackMatrix held its games in
other arrays.
"""
PLAYABLE_FORMATS = (1, 2, 3)
"""Formats whose policy can be read."""
METADATA = "metadata.json"
_METADATA_1 = "metadata/metadata"  # where format 1 had it

Report = Callable[[str], None]


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
    best: bool = False,
    report: Report = warnings.warn,
) -> Loaded:
    """Loads the newest policy of a run, or that of one checkpoint.

    A damaged checkpoint is named, and the one before it used.

    Args:
        run: a run's folder, its name under `runs/`, a folder of checkpoints (which may be
            remote: `gs://...`), or one checkpoint.
        policy: a network of the same shape to fill in, where the config cannot build it
            because it was composed by hand; its own numbers do not matter.
        best: take the checkpoint with the highest mean return rather than the newest.
        report: is told which checkpoints are damaged and passed over.

    Raises:
        ConfigError: if there is no checkpoint, or it is not of this format or network.
    """
    folder = find_checkpoint(run, best=best, report=report)
    metadata = read_metadata(folder)
    config = config_from_dict(metadata["config"])
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


def find_checkpoint(
    run: str | Path, *, best: bool = False, report: Report = warnings.warn
) -> epath.Path:
    """The folder of the newest whole checkpoint that a path or a run's name leads to.

    Args:
        run: as for `load`.
        best: the one with the highest mean return instead.
        report: is told which checkpoints are damaged and passed over.

    Raises:
        ConfigError: if there is none.
    """
    for place in (epath.Path(run), epath.Path("runs") / run):
        if not place.is_dir():
            continue
        if _metadata_file(place).exists():
            if (wrong := _trouble(place)) is not None:
                raise ConfigError(f"{place}: {wrong}. Give another checkpoint of the run.")
            return place
        for folder in (place, place / "checkpoints", _named_by_config(place)):
            if folder is not None and (found := whole_checkpoint(folder, best, report)):
                return found
    raise ConfigError(
        f"{run}: no checkpoint there. Give a run's folder (runs/...), its name, or a checkpoint."
    )


def whole_checkpoint(
    folder: epath.Path, best: bool = False, report: Report = warnings.warn
) -> epath.Path | None:
    """The newest (or best) checkpoint in a folder that is neither half-written nor damaged."""
    candidates = checkpoints_in(folder)[::-1]
    if best:
        candidates = sorted(candidates, key=_score, reverse=True)
    for candidate in candidates:
        wrong = _trouble(candidate)
        if wrong is None:
            return candidate
        report(f"{candidate}: {wrong}; it is passed over")
    return None


def checkpoints_in(folder: epath.Path) -> list[epath.Path]:
    """The checkpoints in a folder, whole or not, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def mean_return(folder: epath.Path) -> float | None:
    """The mean return that a checkpoint's metadata tells of, if any."""
    score: float | None = read_metadata(folder)["counters"].get("mean_return")
    return score


def _score(folder: epath.Path) -> float:
    # Sorting must not read the metadata of what is half-written.
    score = mean_return(folder) if (folder / MANIFEST).exists() else None
    return float("-inf") if score is None else score


def _trouble(folder: epath.Path) -> str | None:
    """What keeps a checkpoint from being used, in words."""
    if (folder / _METADATA_1).exists() and not (folder / METADATA).exists():
        return None  # format 1 had no manifest
    return damage(folder)


def read_metadata(folder: epath.Path) -> dict[str, Any]:
    """The JSON beside a checkpoint's arrays.

    Raises:
        ConfigError: if it is of a format that this version does not know.
    """
    metadata: dict[str, Any] = json.loads(_metadata_file(folder).read_text())
    if metadata.get("format") not in PLAYABLE_FORMATS:
        raise ConfigError(
            f"{folder}: checkpoint format {metadata.get('format')}, written by hackmatrix-rl "
            f"{_writer(metadata)}, but this version reads formats up to {FORMAT}. Use the "
            "version that wrote it, or a later one."
        )
    return metadata


def _metadata_file(folder: epath.Path) -> epath.Path:
    return folder / _METADATA_1 if (folder / _METADATA_1).exists() else folder / METADATA


def check_resumable(folder: epath.Path, metadata: Mapping[str, Any]) -> None:
    """Raises a ConfigError unless training can go on from a checkpoint of this format."""
    if metadata["format"] != FORMAT:
        raise ConfigError(
            f"{folder}: checkpoint format {metadata['format']}, written by hackmatrix-rl "
            f"{_writer(metadata)}. Its policy can still be played (hackmatrix-rl eval), but to "
            "go on with the training use the version that wrote it, or start anew."
        )


def _writer(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("versions", {}).get("hackmatrix-rl", "0.1.0"))


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
    if (wrong := stored.misfit(like)) is not None:
        raise ConfigError(f"{folder}: not of this network and these settings: {wrong}.")
    return stored.fill(like)


def read_arrays(folder: epath.Path, part: str) -> Stored:
    """The arrays of a part, in host memory: whatever devices wrote them.

    Args:
        folder: of one checkpoint.
        part: `policy` or `training`.
    """
    with _reader() as reader:
        described = reader.metadata(_absolute(folder)).item_metadata[part].tree
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), described)
        arguments = ocp.args.PyTreeRestore(restore_args=as_numpy)
        restored = reader.restore(_absolute(folder), ocp.args.Composite(**{part: arguments}))
    return Stored(restored[part], read_metadata(folder)["random_keys"][part])


def _reader() -> ocp.Checkpointer:
    return ocp.Checkpointer(
        ocp.CompositeCheckpointHandler(
            policy=ocp.PyTreeCheckpointHandler(),
            training=ocp.PyTreeCheckpointHandler(),
        )
    )


def _absolute(folder: epath.Path) -> epath.Path:
    """Orbax takes no relative paths."""
    return epath.Path(folder).absolute()


def _named_by_config(run: epath.Path) -> epath.Path | None:
    """Where a run put its checkpoints, if that is outside of its folder."""
    config = run / "config.json"
    if not config.exists():
        return None
    named = json.loads(config.read_text()).get("checkpoint_dir")
    return epath.Path(named) if named else None
