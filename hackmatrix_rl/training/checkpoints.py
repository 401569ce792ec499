"""Training state on disk, and back.

A checkpoint is a folder that Orbax writes, named after the update it was made at, with

- `policy`: the arrays of the policy alone, which is all that playing needs;
- `training`: the arrays of the whole training state, random keys and environments included,
  which is all that going on needs;
- `metadata`: JSON: the format's version, the config, the counters, and which arrays are
  random keys.

Arrays are stored by their path in the tree (`.layers[0].weight`), so that a checkpoint can be
read without the code that made it. Code is never stored: the config says how to build it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from hackmatrix_rl.agent import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.training.config import ConfigError, TrainConfig
from hackmatrix_rl.training.policies import build_policy
from hackmatrix_rl.training.settings import config_from_dict

FORMAT = 1

Tree = TypeVar("Tree")


class CheckpointWriter:
    """Writes checkpoints into one folder, and forgets the oldest.

    Args:
        folder: made if it is missing.
        keep: how many of the newest stay.
        config: stored with each, to build the same modules from.
    """

    def __init__(self, folder: Path, *, keep: int, config: TrainConfig) -> None:
        self._config = config
        # Synchronous: the state is donated to the next update, and a save that failed is
        # known at once.
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=False)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def save(
        self,
        update: int,
        *,
        policy: ActorCritic,
        training: PyTree,
        counters: Mapping[str, int | float],
    ) -> None:
        """Writes one checkpoint; one of the same update that is there already stays.

        Args:
            update: number of updates done; names the folder.
            policy: what acts.
            training: whatever going on needs; its array leaves are stored.
            counters: further numbers to find in the metadata (environment steps ...).
        """
        if update in self._manager.all_steps():
            return
        parts = {"policy": policy, "training": training}
        arrays = {name: _to_host(part) for name, part in parts.items()}
        metadata = {
            "format": FORMAT,
            "update": update,
            "counters": dict(counters),
            "config": self._config.as_dict(),
            "versions": {"jax": jax.__version__, "equinox": eqx.__version__},
            "random_keys": {name: _random_keys(part) for name, part in parts.items()},
        }
        self._manager.save(
            update,
            args=ocp.args.Composite(
                metadata=ocp.args.JsonSave(metadata),
                **{name: ocp.args.StandardSave(tree) for name, tree in arrays.items()},
            ),
        )

    def close(self) -> None:
        """Finishes what was begun."""
        self._manager.close()


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
    folder: Path
    metadata: Mapping[str, Any]


def load(run: str | Path, *, policy: ActorCritic | None = None) -> Loaded:
    """Loads the newest policy of a run, or that of one checkpoint.

    Args:
        run: a run's folder, its name under `runs/`, a folder of checkpoints, or one
            checkpoint.
        policy: a network of the same shape to fill in, where the config cannot build it
            because it was composed by hand; its own numbers do not matter.

    Raises:
        ConfigError: if there is no checkpoint, or it is not of this format or network.
    """
    folder = find_checkpoint(run)
    metadata = read_metadata(folder)
    config = config_from_dict(metadata["config"])
    environment = HackMatrix(config.game(), max_steps=config.max_steps)
    if policy is None:
        policy = build_policy(config, environment.spec, key=jax.random.key(0))
    return Loaded(
        policy=restore(folder, "policy", policy),
        environment=environment,
        config=config,
        folder=folder,
        metadata=MappingProxyType(metadata),
    )


def find_checkpoint(run: str | Path) -> Path:
    """The folder of the newest checkpoint that a path or a run's name leads to.

    Raises:
        ConfigError: if there is none.
    """
    for place in (Path(run), Path("runs") / run):
        if not place.is_dir():
            continue
        if (place / "metadata").is_dir():
            return place
        for folder in (place, place / "checkpoints", _named_by_config(place)):
            found = _checkpoints(folder)
            if found:
                return found[-1]
    raise ConfigError(
        f"{run}: no checkpoint there. Give a run's folder (runs/...), its name, or a checkpoint."
    )


def read_metadata(folder: Path) -> dict[str, Any]:
    """The JSON beside a checkpoint's arrays.

    Raises:
        ConfigError: if it is of a format that this version does not know.
    """
    with _reader() as reader:
        arguments = ocp.args.Composite(metadata=ocp.args.JsonRestore())
        metadata: dict[str, Any] = reader.restore(folder.absolute(), arguments)["metadata"]
    if metadata.get("format") != FORMAT:
        raise ConfigError(
            f"{folder}: checkpoint format {metadata.get('format')}, but this version reads "
            f"format {FORMAT}. Use the version of hackmatrix-rl that wrote it."
        )
    return metadata


def restore(folder: Path, part: str, like: Tree) -> Tree:
    """A part of a checkpoint as a tree.

    Args:
        folder: of one checkpoint.
        part: `policy` or `training`.
        like: a tree of the same structure; what is not an array is taken from it.

    Raises:
        ConfigError: if the checkpoint's arrays do not fit it.
    """
    stored = _read_arrays(folder, part)
    keys = read_metadata(folder)["random_keys"][part]
    arrays, rest = eqx.partition(like, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten_with_path(arrays)
    wanted = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if wanted.keys() != stored.keys():
        odd = sorted(wanted.keys() ^ stored.keys())[0]
        where = "the network" if odd in wanted else "the checkpoint"
        raise ConfigError(f"{folder}: not of this network: only {where} has {odd}.")
    filled = [
        _from_host(name, leaf, stored[name], keys.get(name), folder)
        for name, leaf in wanted.items()
    ]
    return cast(Tree, eqx.combine(jax.tree.unflatten(structure, filled), rest))


def _reader() -> ocp.Checkpointer:
    return ocp.Checkpointer(
        ocp.CompositeCheckpointHandler(
            metadata=ocp.JsonCheckpointHandler(),
            policy=ocp.PyTreeCheckpointHandler(),
            training=ocp.PyTreeCheckpointHandler(),
        )
    )


def _read_arrays(folder: Path, part: str) -> dict[str, np.ndarray]:
    """The arrays of a part by path, in host memory: whatever devices wrote them."""
    with _reader() as reader:
        described = reader.metadata(folder.absolute()).item_metadata[part].tree
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), described)
        arguments = ocp.args.PyTreeRestore(restore_args=as_numpy)
        restored = reader.restore(folder.absolute(), ocp.args.Composite(**{part: arguments}))
    arrays: dict[str, np.ndarray] = restored[part]
    return arrays


def _is_random_key(leaf: jax.Array) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array_leaves(tree: PyTree) -> dict[str, jax.Array]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _to_host(tree: PyTree) -> dict[str, np.ndarray]:
    """The array leaves by path, copied off the device; a random key as its raw words."""
    return {
        name: np.array(jax.random.key_data(leaf) if _is_random_key(leaf) else leaf)
        for name, leaf in _array_leaves(tree).items()
    }


def _random_keys(tree: PyTree) -> dict[str, str]:
    """Which leaves are random keys, and of which generator."""
    return {
        name: str(jax.random.key_impl(leaf))
        for name, leaf in _array_leaves(tree).items()
        if _is_random_key(leaf)
    }


def _from_host(
    name: str, like: jax.Array, stored: np.ndarray, generator: str | None, folder: Path
) -> jax.Array:
    array = jax.numpy.asarray(stored)
    if generator is not None:
        array = jax.random.wrap_key_data(array, impl=generator)
    if array.shape != like.shape or array.dtype != like.dtype:
        raise ConfigError(
            f"{folder}: not of this network: {name} is {array.dtype}{list(array.shape)} in the "
            f"checkpoint, {like.dtype}{list(like.shape)} in the network."
        )
    return array


def _checkpoints(folder: Path | None) -> list[Path]:
    """The whole checkpoints in a folder, oldest first."""
    if folder is None or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name.isdigit()]
    return sorted(
        (path for path in found if (path / "metadata").is_dir()), key=lambda path: int(path.name)
    )


def _named_by_config(run: Path) -> Path | None:
    """Where a run put its checkpoints, if that is outside of its folder."""
    config = run / "config.json"
    if not config.is_file():
        return None
    named = json.loads(config.read_text(encoding="utf-8")).get("checkpoint_dir")
    return Path(named) if named else None
