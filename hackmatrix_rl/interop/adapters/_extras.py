"""How adapters use packages of other people."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import jax

from hackmatrix_rl.system.errors import ConfigError, first_line, printable, similar

_LINE = 400
"""Characters of another package's error that a message repeats."""


def no_such(what: str, name: str, known: Collection[str], listed: str | None = None) -> str:
    """One line about a name that is not known: the nearest one, and those that there are.

    `what` is a package and what it has, and `listed` the place of a list that is too long here.
    """
    near = similar(name, known)
    nearest = "" if near is None else f"; the nearest is {near}"
    return f"{what} {name!r}{nearest}; {listed or 'it has ' + ', '.join(known)}"


@contextmanager
def making(package: str) -> Iterator[None]:
    """Makes an error of a package that makes an environment a ValueError of one line.

    The constructor is foreign code, which may raise anything at arguments that it does not expect.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        raise ValueError(
            f"{package} cannot make it: {printable(first_line(error), _LINE)}"
        ) from error


@contextmanager
def as_they_expect() -> Iterator[None]:
    """A context with JAX's default dtype promotion, for third-party code."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
