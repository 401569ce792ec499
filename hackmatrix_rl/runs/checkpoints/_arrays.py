"""Reads the arrays of a checkpoint, which Orbax stores: all, some, or only their shapes."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from hackmatrix_rl.runs.checkpoints._metadata import read_metadata
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
    described = _described(folder, part)
    wanted = {name: np.ndarray for name in described if name.startswith(under)}
    if not wanted:
        return {}
    restored: dict[str, np.ndarray] = _ask(folder, part, wanted)
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
    with _unreadable(folder, "training"):
        found["training"] = _described(place(folder), "training")
    for part, arrays in written.items():
        for name in {**arrays, **found[part]}:
            there, here = (_layout(each.get(name)) for each in (found[part], arrays))
            if there != here:
                raise ConfigError(
                    f"{folder}: its {part} was not stored: {name} is {there}, not {here}."
                )


def _layout(array: Any) -> str:
    return "missing" if array is None else f"{jnp.dtype(array.dtype)}{list(array.shape)}"


def _described(folder: epath.Path, part: str) -> dict[str, Any]:
    """The shape and dtype of each array of a part, by name; Orbax opens every array."""
    _check_array_names(folder / part / "_METADATA")
    described: dict[str, Any] = _ask(folder, part)
    return described


def _ask(folder: epath.Path, part: str, wanted: Mapping[str, type] | None = None) -> Any:
    """The arrays of a part, as the types in `wanted`; without it, their shapes and dtypes.

    Each process reads by itself. `ocp.load` counts its calls, and the next save waits for
    processes that called it as often; so this asks Orbax's handler of a part.
    """
    from orbax.checkpoint import v1 as ocp  # half a second, and few commands need it

    here = jax.process_index()

    async def answer() -> Any:
        context = ocp.Context()
        context.multiprocessing.primary_host = here
        context.multiprocessing.active_processes = {here}
        context.pytree.loading.partial_load = True
        with context:
            handler = ocp.handlers.PyTreeHandler(context=context)
            if wanted is None:
                return await handler.metadata(folder / part)
            return await (await handler.load(folder / part, wanted))

    # In a thread of its own: a notebook's thread runs a loop already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer()).result()


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
