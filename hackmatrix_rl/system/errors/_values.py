"""Checks of single arguments, and descriptions of values and lines of code for messages."""

import inspect
import math
import numbers
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32


def described(value: Any) -> str:
    """A short description: `float32 of shape (3,)`, `None`, `the class X`, `a tuple of 2`."""
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
    """A method or function with its file and line: `MyNet.__call__ (nets.py:12)`."""
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
    """Whether the class of a value is part of this package, whose tests check its classes."""
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]


def path_in_words(name: str, path: Any) -> str:
    """The path of a leaf in a tree: `observation.grid`, `terms['damage']`."""
    return f"{name}{jax.tree_util.keystr(path)}"


def summary(tree: Any, most: int = 4) -> str:
    """The first leaves of a tree: `.grid uint32 of shape (36,), ...`."""
    leaves = [
        f"{jax.tree_util.keystr(path)} {described(leaf)}".strip()
        for path, leaf in jax.tree.leaves_with_path(tree)
    ]
    if not leaves:
        return described(tree)
    more = f" and {len(leaves) - most} more" if len(leaves) > most else ""
    return ", ".join(leaves[:most]) + more


def first_line(error: Exception) -> str:
    """The type and the first line of the message of an error."""
    said = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {said.rstrip('.')}"


def check_array(
    said: str,
    value: Any,
    dtype: str,
    shape: tuple[int, ...] | None = None,
    *,
    axes: int | None = None,
    hint: str = "",
) -> None:
    """Raises unless a value is an array, or a `jax.ShapeDtypeStruct`, with a given dtype and shape.

    The message starts with `said`. If the shape is wrong, it ends with `hint`, the line to change.
    Without `shape`, only the number of axes is checked.
    """
    wanted = f"{axes} axes" if shape is None else f"shape {shape}"
    expected = f"one {dtype}, of shape ()" if shape == () else f"{dtype} of {wanted}"
    if not hasattr(value, "dtype"):
        raise TypeError(f"{said} {described(value)}; expected {expected}{_then(hint)}")
    fits = value.shape == shape if shape is not None else len(value.shape) == axes
    if not fits:
        raise ValueError(f"{said} {described(value)}; expected {expected}{_then(hint)}")
    if str(value.dtype) != dtype:
        cast = ".astype(bool)" if dtype == "bool" else f".astype(jnp.{dtype})"
        raise ValueError(f"{said} {described(value)}; expected {expected}: add {cast}")


def _then(hint: str) -> str:
    return f": {hint}" if hint else ""


def same_structure(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure."""
    structures: list[Any] = [jax.tree.structure(one), jax.tree.structure(other)]
    return bool(structures[0] == structures[1])


def difference(name: str, before: Any, after: Any) -> str | None:
    """The first change of structure, shape or dtype of a tree, in words; `None` without one."""
    if not same_structure(before, after):
        return f"{name} was {summary(before)} and is {summary(after)}"
    pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, old), new in pairs:
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return f"{path_in_words(name, path)} was {described(old)} and is {described(new)}"
    return None


def check_actions(actions: Any, keys: Any) -> None:
    """Raises unless `actions` is an array of integers with the shape of `keys`."""
    if not (hasattr(actions, "dtype") and jnp.issubdtype(actions.dtype, jnp.integer)):
        raise TypeError(
            f"actions is {described(actions)}; expected int32, one for each environment: "
            "actions.astype(jnp.int32)"
        )
    if actions.shape != keys.shape:
        raise ValueError(
            f"actions is {described(actions)} and keys are of shape {keys.shape}; expected one of "
            "each for each environment"
        )


def as_action(action: Any, expected: str) -> Int32[Array, ""]:
    """An action as an int32 scalar. A number out of range becomes -1, an illegal action too."""
    if isinstance(action, int | np.integer) and not -(2**31) <= action < 2**31:
        action = -1
    number = jnp.asarray(action)
    if number.shape != () or not jnp.issubdtype(number.dtype, jnp.integer):
        raise TypeError(f"action is {described(action)}; expected {expected}")
    return number.astype(jnp.int32)


def check_key(key: Any, *, members: int | None = None) -> None:
    """Raises a TypeError unless this is one typed random key, or one for each of `members`."""
    if not hasattr(key, "dtype"):
        number = key if isinstance(key, int) and not isinstance(key, bool) else 0
        raise TypeError(
            f"key is {described(key)}; expected a random key: key=jax.random.key({number})"
        )
    if not is_key(key):
        raise TypeError(
            f"key is {described(key)}, as jax.random.PRNGKey makes it; expected a typed key: "
            "key=jax.random.key(0), or jax.random.wrap_key_data(key)"
        )
    more = "" if members is None else f", or one for each of the {members} members"
    if key.shape not in ((), (members,)):
        raise TypeError(f"key is {described(key)}, several keys; expected one: key=keys[0]{more}")


def whole(name: str, value: Any, minimum: int = 1) -> int:
    """Checks that an argument is an integer of at least `minimum`, and returns it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        is_whole = isinstance(value, float) and value.is_integer()
        hint = f": {name}={int(value)}" if is_whole else ""
        raise TypeError(f"{name} is {described(value)}; expected a whole number{hint}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")
    return int(value)


def counts(**sizes: Any) -> None:
    """Checks that all arguments are integers of at least 1."""
    for name, value in sizes.items():
        whole(name, value)


def number(name: str, value: Any) -> float:
    """Checks that an argument is a number, or a scalar array, and returns it as a float."""
    if isinstance(value, jax.Array | np.ndarray):
        is_number = value.shape == () and any(
            jnp.issubdtype(value.dtype, kind) for kind in (np.floating, np.integer)
        )
    else:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number:
        raise TypeError(f"{name} is {described(value)}; expected a number")
    return float(value)


def finite(name: str, value: Any) -> float:
    """Checks that an argument is a finite number, and returns it."""
    found = number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"{name} must be a finite number, not {found}")
    return found


def share(name: str, value: Any) -> float:
    """Checks that an argument is in [0, 1], and returns it."""
    found = number(name, value)
    if not 0 <= found <= 1:
        raise ValueError(f"{name} must be in [0, 1], not {value}")
    return found


def truth(name: str, value: Any) -> bool:
    """Checks that an argument is True or False, and returns it."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {described(value)}; expected True or False")
    return bool(value)


def instance(name: str, value: Any, kind: type, example: str) -> None:
    """Raises a TypeError unless a value is an instance of a class. `example` makes one, as code."""
    if isinstance(value, kind):
        return
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(
            f"{name} is the class {value.__name__}; expected an instance: {name}={value.__name__}()"
        )
    raise TypeError(
        f"{name} is {described(value)}; expected an instance of {kind.__name__}: {name}={example}"
    )


def is_key(leaf: Any) -> bool:
    """Whether an array, or a `jax.ShapeDtypeStruct`, is of typed random keys."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))
