"""Packages that come with an extra."""

from importlib import import_module
from types import ModuleType

from hackmatrix_rl.system.errors import ConfigError


def require(package: str, *, extra: str, caller: str) -> ModuleType:
    """Imports a package that comes with an extra; `caller` is what the message says needs it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{caller} needs the package {package}, and {error.name} is not installed. Install the "
            f"{extra} extra: pip install '.[{extra}]'"
        ) from error
