"""Words for values and lines of code in error messages."""

import inspect
import os
from typing import Any

import jax
import numpy as np


def described(value: Any) -> str:
    """A value in a few words: `float32 of shape (3,)`, `None`, `the class X`, `a tuple of 2`."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, int | float | complex | str):
        return f"{value!r} ({type(value).__name__})"
    if isinstance(value, tuple | list | dict) and not value:
        return repr(value)
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', 'without a name')}"
    return f"an instance of {type(value).__name__}"


def place(owner: Any, method: str) -> str:
    """A method, or a function, with its file and line: `MyNet.__call__ (nets.py:12)`."""
    name, found = f"{type(owner).__name__}.{method}", getattr(type(owner), method, None)
    if inspect.isfunction(owner):
        name, found = owner.__name__, owner
    if isinstance(found, property):
        found = found.fget
    code = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
    if code is None:
        return name
    file = os.path.relpath(code.co_filename)
    if file.startswith(os.pardir):
        file = code.co_filename
    return f"{name} ({file}:{code.co_firstlineno})"


def is_ours(value: Any) -> bool:
    """Whether a value's class is part of this package. The package's tests check such classes."""
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]


def path_in_words(name: str, path: Any) -> str:
    """A leaf by its path in a tree: `observation.grid`, `terms['damage']`."""
    return f"{name}{jax.tree_util.keystr(path)}"


def summary(tree: Any, most: int = 4) -> str:
    """A tree by its leaves: `.grid uint32 of shape (36,), ...`."""
    leaves = [
        f"{jax.tree_util.keystr(path)} {described(leaf)}".strip()
        for path, leaf in jax.tree.leaves_with_path(tree)
    ]
    if not leaves:
        return described(tree)
    more = f" and {len(leaves) - most} more" if len(leaves) > most else ""
    return ", ".join(leaves[:most]) + more


def first_line(error: Exception) -> str:
    """The type and the first line of an error."""
    said = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {said.rstrip('.')}"
