"""Reads the arrays of a checkpoint, which Orbax stores: all, some, or only their shapes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from hackmatrix_rl.runs.checkpoints._metadata import PARTS, read_metadata
from hackmatrix_rl.runs.checkpoints._place import place
from hackmatrix_rl.system import read_bounded
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Stored

VALUE_SCALE = ".learner.value_scale"
"""The path of the value scale in the training state."""


def read_arrays(folder: epath.Path, part: str, *, under: str = "") -> Stored:
    """The arrays of a part, `policy` or `training`, in host memory, from any kind of device.

    This reads only the arrays whose names begin with `under`.

    Raises:
        ConfigError: the arrays cannot be read.
    """
    generators = read_metadata(folder)["random_keys"][part]
    keys = {name: each for name, each in generators.items() if name.startswith(under)}
    where = place(folder)
    with _unreadable(folder, part):
        arrays = _restored(where, part, under)
        for name, generator in keys.items():
            jax.eval_shape(partial(jax.random.wrap_key_data, impl=generator), arrays[name])
    return Stored(arrays, keys)


def _restored(folder: epath.Path, part: str, under: str) -> dict[str, np.ndarray]:
    """The arrays of a part whose names begin with `under`; random keys as their raw words."""
    import orbax.checkpoint as ocp  # half a second, and few commands need it

    with _reader() as reader:
        described = _described(reader, folder, part)
        wanted = {name: each for name, each in described.items() if name.startswith(under)}
        if not wanted:
            return {}
        as_numpy = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in wanted}
        arguments = ocp.args.PyTreeRestore(
            item=wanted if under else None, restore_args=as_numpy, partial_restore=bool(under)
        )
        restored = reader.restore(folder, ocp.args.Composite(**{part: arguments}))[part]
    odd = [name for name, array in restored.items() if not isinstance(array, np.ndarray)]
    if odd:
        raise ValueError(f"{odd[0]!r} is not an array")
    return restored


def check_written(folder: epath.Path, written: Mapping[str, Mapping[str, Any]]) -> None:
    """Checks a checkpoint that was just written, before it counts as complete.

    `written` has the arrays of each part, or their shapes. This reads the full policy. Of the
    training state, which may have a replay buffer as large as the memory, it opens each array and
    compares shape and dtype.
    """
    found: dict[str, Mapping[str, Any]] = {"policy": read_arrays(folder, "policy").arrays}
    with _unreadable(folder, "training"), _reader() as reader:
        found["training"] = _described(reader, place(folder), "training")
    for part, arrays in written.items():
        for name in {**arrays, **found[part]}:
            there, here = (_layout(each.get(name)) for each in (found[part], arrays))
            if there != here:
                raise ConfigError(
                    f"{folder}: its {part} was not stored: {name} is {there}, not {here}."
                )


def _layout(array: Any) -> str:
    return "missing" if array is None else f"{jnp.dtype(array.dtype)}{list(array.shape)}"


def _reader() -> Any:
    """Orbax's reader, as a context. Each process reads by itself and waits for no other."""
    import orbax.checkpoint as ocp

    here = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(primary_host=here, active_processes={here})
    handlers = {name: ocp.PyTreeCheckpointHandler(multiprocessing_options=alone) for name in PARTS}
    composite = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone), **handlers
    )
    return ocp.Checkpointer(composite, multiprocessing_options=alone)


def _described(reader: Any, folder: epath.Path, part: str) -> dict[str, Any]:
    """The shape and dtype of each array of a part, by name; Orbax opens every array."""
    _check_array_names(folder / part / "_METADATA")
    described: dict[str, Any] = reader.metadata(folder).item_metadata[part].tree
    return described


@contextmanager
def _unreadable(folder: epath.PathLike, part: str) -> Iterator[None]:
    """Makes any error of the block a ConfigError, because Orbax has no base class of errors."""
    try:
        yield
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ConfigError(f"{folder}: its {part} cannot be read: {said}") from error


def _check_array_names(file: epath.Path) -> None:
    """Refuses names of arrays that Orbax would resolve to paths outside the checkpoint."""
    described = json.loads(read_bounded(file))["tree_metadata"]
    for entry in described.values():
        name = ".".join(str(each["key"]) for each in entry["key_metadata"])
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"the name {name!r} of an array leads out of the checkpoint")
