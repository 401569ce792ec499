"""HackMatrix in JAX: the game, its environment, and agents that learn it.

    import hackmatrix_rl as hm

The public names stand in `__init__.pyi`, for type checkers and for this module alike. Each is
imported when it is first used, so that `import hackmatrix_rl` stays light and starts no device.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

import lazy_loader

from hackmatrix_rl._moved import read_old_names
from hackmatrix_rl._plugins import quiet_absent_accelerators

quiet_absent_accelerators()
read_old_names()

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    return version("hackmatrix-rl") if name == "__version__" else _attribute(name)


if "gymnasium" in sys.modules:
    import_module("hackmatrix_rl.gymnasium")
