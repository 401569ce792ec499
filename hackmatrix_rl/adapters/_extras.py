"""Packages that an adapter needs and the package itself does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

import jax

from hackmatrix_rl.errors import ConfigError


def require(package: str, *, extra: str, caller: str) -> ModuleType:
    """Imports a package that comes with an extra; `caller` is what the message says needs it.

    Raises:
        ConfigError: it is not installed, or something that it needs is not.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{caller} needs the package {package}, and {error.name} is not installed. Install the "
            f"{extra} extra: pip install '.[{extra}]'"
        ) from error


@contextmanager
def as_they_expect() -> Iterator[None]:
    """A context with JAX's default dtype promotion, for third-party code."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
