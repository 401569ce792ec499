"""The file format of `Trainer.save` and `hm.save`: the arrays of a tree in one file.

The first line is JSON: the kind of file, and the path, dtype and shape of each array. The bytes
of the arrays follow in this order (little-endian). The last 32 bytes are the SHA-256 sum of
everything before. The file holds no code, and reading it runs none: the reader builds the modules
that the arrays belong to.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import PyTree

from hackmatrix_rl.system import open_regular, storage_path, typed_path, write_whole
from hackmatrix_rl.system.errors import is_key, refusing, shortened
from hackmatrix_rl.training._stored import Stored, leaves_by_path, random_keys

FORMAT = "hackmatrix-rl arrays 1"
_MOST_HEADER = 2**24  # bytes; a network of 10,000 arrays needs 2,000,000
_MOST_AXES, _MOST_LENGTH = 32, np.iinfo(np.int64).max  # of an array of NumPy
_SUM_BYTES = hashlib.sha256().digest_size
_DTYPES = frozenset(
    ["bool", "bfloat16", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def write_tree(
    path: epath.PathLike,
    kind: str,
    tree: PyTree,
    *,
    to_host: Callable[[jax.Array], np.ndarray] = np.asarray,
    write: bool = True,
) -> None:
    """Writes the arrays of a tree into a file, for `read_tree` with the same `kind`.

    An existing file is replaced atomically. The arrays are copied to the host one at a time. All
    processes that share the arrays call this function, and one of them writes.

    Raises:
        TypeError: an array has a dtype that the format does not support.
        OSError: the file cannot be written. An existing file is unchanged.
    """
    leaves = {
        name: jax.random.key_data(leaf) if is_key(leaf) else leaf
        for name, leaf in leaves_by_path(tree).items()
    }
    for name, leaf in leaves.items():
        if str(leaf.dtype) not in _DTYPES:
            raise TypeError(f"{name} is of dtype {leaf.dtype}, which no file holds")
    if not write:
        for leaf in leaves.values():
            to_host(leaf)
        return
    header = {
        "format": FORMAT,
        "kind": kind,
        "written_by": f"hackmatrix-rl {version('hackmatrix-rl')}",
        "random_keys": random_keys(tree),
        "arrays": [
            {"name": name, "dtype": str(leaf.dtype), "shape": list(leaf.shape)}
            for name, leaf in leaves.items()
        ],
    }

    def chunks() -> Iterator[bytes]:
        seen = hashlib.sha256()
        for chunk in content():
            seen.update(chunk)
            yield chunk
        yield seen.digest()

    def content() -> Iterator[bytes]:
        yield json.dumps(header).encode() + b"\n"
        for leaf in leaves.values():
            yield np.ascontiguousarray(to_host(leaf)).tobytes()

    write_whole(typed_path(path), chunks())


def read_tree(path: epath.PathLike, kind: str) -> Stored:
    """Reads a file of `write_tree` into host memory.

    Raises:
        ConfigError: the file does not exist, has another kind, or is damaged.
    """
    place = storage_path(typed_path(path), "the file")
    unread = refusing(f"{path}: cannot be read: ", of=OSError)
    with refusing(f"{path}: ", of=_Wrong), unread, open_regular(place) as file:
        return _read(file, kind, size=place.stat().length)


def is_tree_file(path: epath.PathLike) -> bool:
    """Whether the path is a file (not a folder) with the first bytes of this format.

    Raises:
        ConfigError: no file can have this name, or the file cannot be read.
    """
    place = storage_path(typed_path(path), "the file")
    # In older versions of etils, `is_file` is true for a path that does not exist.
    if not (place.exists() and place.is_file()):
        return False
    with refusing(f"{path}: cannot be read: ", of=OSError), open_regular(place) as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


_BEGINNING = json.dumps({"format": FORMAT}).encode()[:-1]


class _Wrong(ValueError):
    """The file is invalid; the message says why."""


def _read(file: IO[bytes], kind: str, *, size: int) -> Stored:
    seen = hashlib.sha256()
    first = file.readline(_MOST_HEADER)
    header = _header(first)
    if header["kind"] != kind:
        raise _Wrong(f"holds a {shortened(header['kind'])}, not a {kind}")
    shapes = {
        each["name"]: (jnp.dtype(each["dtype"]), tuple(each["shape"])) for each in header["arrays"]
    }
    if len(shapes) < len(header["arrays"]):
        raise _Wrong("names an array twice")
    lengths = {name: math.prod(shape) * dtype.itemsize for name, (dtype, shape) in shapes.items()}
    # Check the size first: a forged header may claim arrays that do not fit into memory.
    if len(first) + sum(lengths.values()) + _SUM_BYTES != size:
        raise _Wrong("is damaged: it was cut short, or something was added")
    seen.update(first)
    arrays = {}
    for name, (dtype, shape) in shapes.items():
        content = file.read(lengths[name])
        seen.update(content)
        try:
            arrays[name] = np.frombuffer(content, dtype).reshape(shape)
        except ValueError as error:  # an axis of length 0, and others that overflow
            raise _Wrong(f"the shape of its array {shortened(name)} is invalid") from error
    if file.read(_SUM_BYTES + 1) != seen.digest():
        raise _Wrong("is damaged: its SHA-256 sum does not match")
    keys = header["random_keys"]
    for name, generator in keys.items():
        try:
            jax.eval_shape(partial(jax.random.wrap_key_data, impl=generator), arrays[name])
        except (KeyError, TypeError, ValueError) as error:
            raise _Wrong(f"its random key {shortened(name)} is invalid") from error
    return Stored(arrays, keys)


def _header(line: bytes) -> dict[str, Any]:
    """The first line as a dict, with its types checked."""
    if not line.startswith(_BEGINNING):
        raise _Wrong("is not a file of Trainer.save or hm.save of this version")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Wrong("has a damaged first line") from error
    keys, arrays = header.get("random_keys"), header.get("arrays")
    if (
        not isinstance(header.get("kind"), str)
        or not isinstance(keys, dict)
        or not all(isinstance(each, str) for each in keys.values())
        or not isinstance(arrays, list)
        or not all(_is_array(each) for each in arrays)
    ):
        raise _Wrong("has a damaged first line")
    return header


def _is_array(described: Any) -> bool:
    if not isinstance(described, dict) or described.keys() != {"name", "dtype", "shape"}:
        return False
    name, dtype, shape = (described[each] for each in ("name", "dtype", "shape"))
    return (
        isinstance(name, str)
        and isinstance(dtype, str)
        and dtype in _DTYPES
        and isinstance(shape, list)
        and len(shape) <= _MOST_AXES
        and all(type(length) is int and 0 <= length <= _MOST_LENGTH for length in shape)
    )
