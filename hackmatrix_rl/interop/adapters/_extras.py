"""Helpers for calling third-party packages."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from hackmatrix_rl.env import ActionSpace, Box, Discrete, MultiDiscrete
from hackmatrix_rl.system.errors import ConfigError, first_line, printable, similar

_LINE = 400
"""Most characters of another package's error that a message quotes."""


def check_known(what: str, name: str, known: Collection[str]) -> None:
    """Raises a ValueError for an unknown name; see `no_such`."""
    if name not in known:
        raise ValueError(no_such(what, name, known))


def no_such(what: str, name: str, known: Collection[str], listed: str | None = None) -> str:
    """One line about an unknown name: the nearest known one, and where all are listed.

    `what` begins the line: `gymnax has no environment`. `listed` replaces the list of known names
    where it is too long for a line.
    """
    near = similar(name, known)
    nearest = "" if near is None else f"; the nearest is {near}"
    return f"{what} {name!r}{nearest}; {listed or 'it has ' + ', '.join(known)}"


@contextmanager
def making(package: str) -> Iterator[None]:
    """Turns any error of a third-party constructor into a ValueError with a one-line message."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        raise ValueError(
            f"{package} cannot make it: {printable(first_line(error), _LINE)}"
        ) from error


def action_space(space: Any) -> ActionSpace:
    """The actions of a space of gymnasium or gymnax; several axes become one.

    Raises:
        ValueError: the space is of another kind, or a `Box` of integers or without finite bounds.
    """
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return MultiDiscrete(tuple(np.ravel(space.nvec).tolist()))
    if kind == "Box" and np.issubdtype(space.dtype, np.floating):
        low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
        try:
            return Box(tuple(low.ravel().tolist()), tuple(high.ravel().tolist()))
        except ValueError as error:
            raise ValueError(f"actions are {space!r}: {error}") from error
    raise ValueError(
        f"actions are {space!r}; this package needs Discrete, MultiDiscrete, or a Box of floats"
    )


@contextmanager
def jax_defaults() -> Iterator[None]:
    """A context with JAX's default promotion of dtypes and ranks, for third-party code."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
