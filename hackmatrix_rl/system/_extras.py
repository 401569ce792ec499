"""Packages of optional dependencies (extras)."""

from importlib import import_module
from types import ModuleType

from hackmatrix_rl.system.errors import ConfigError


def require(package: str, *, extra: str, caller: str) -> ModuleType:
    """Imports a package of an extra. A message says that `caller` needs it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{caller} needs the package {package}, and {error.name} is not installed. Install the "
            f"{extra} extra: pip install '.[{extra}]'"
        ) from error
