"""Helpers for calling third-party packages."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import jax

from hackmatrix_rl.system.errors import ConfigError, first_line, printable, similar

_LINE = 400
"""Most characters of another package's error that a message quotes."""


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


@contextmanager
def jax_defaults() -> Iterator[None]:
    """A context with JAX's default promotion of dtypes and ranks, for third-party code."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
