"""Checks of single values from users: arrays, keys, actions, counts."""

import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.errors._wording import described, path_in_words, summary


def check_array(
    said: str,
    value: Any,
    dtype: str,
    shape: tuple[int, ...] | None = None,
    *,
    axes: int | None = None,
    hint: str = "",
) -> None:
    """Raises unless a value is an array with a given dtype and shape.

    Args:
        said: the beginning of the message, before the description of the value.
        value: an array, the shape of one, or any other value.
        dtype: the required dtype.
        shape: the required shape; `None` for any.
        axes: the required number of axes if `shape` is `None`.
        hint: the line to change if the shape is wrong.

    Raises:
        TypeError: the value is not an array.
        ValueError: its shape or dtype is wrong.
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
    """Whether two trees have their leaves in the same places."""
    structures: list[Any] = [jax.tree.structure(one), jax.tree.structure(other)]
    return bool(structures[0] == structures[1])


def difference(name: str, before: Any, after: Any) -> str | None:
    """The first change of shape, dtype or structure of a tree after a step, or `None`."""
    if not same_structure(before, after):
        return f"{name} was {summary(before)} and is {summary(after)}"
    pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, old), new in pairs:
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return f"{path_in_words(name, path)} was {described(old)} and is {described(new)}"
    return None


def check_actions(actions: Any, keys: Any) -> None:
    """Raises unless the actions are one whole number for each environment, of which each has a key.

    Raises:
        TypeError: the actions are not whole numbers.
        ValueError: their number is wrong.
    """
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


def check_key(key: Any) -> None:
    """Raises a TypeError unless this is one typed random key."""
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
    if key.shape != ():
        raise TypeError(f"key is {described(key)}, several keys; expected one: key=keys[0]")


def whole(name: str, value: Any, minimum: int = 1) -> int:
    """Checks an argument that counts something, and returns it.

    Raises:
        TypeError: the value is not a whole number.
        ValueError: the value is smaller than the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        is_whole = isinstance(value, float) and value.is_integer()
        hint = f": {name}={int(value)}" if is_whole else ""
        raise TypeError(f"{name} is {described(value)}; expected a whole number{hint}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")
    return int(value)


def number(name: str, value: Any) -> float:
    """Checks an argument that is a number, or an array of one, and returns it.

    Raises:
        TypeError: the value is no number.
    """
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
    """Checks an argument that is a finite number, and returns it.

    Raises:
        TypeError: the value is no number.
        ValueError: it is NaN or infinite.
    """
    found = number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"{name} must be a finite number, not {found}")
    return found


def truth(name: str, value: Any) -> bool:
    """Checks an argument that is True or False, and returns it.

    Raises:
        TypeError: the value is neither. Text such as "no" would count as True.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {described(value)}; expected True or False")
    return bool(value)


def instance(name: str, value: Any, kind: type, example: str) -> None:
    """Raises a TypeError unless a value is an instance of a class; `example` is one, as code."""
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
    """Whether an array, or the shape of one, holds random keys."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))
