"""Adapters between this package and other packages of environments.

`__init__.pyi` lists the public names. Each is imported on first use.
"""

from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "HackEnv":  # its module imports gymnasium
        from hackmatrix_rl.system import require

        require("gymnasium", extra="gymnasium", caller=name)
    return _attribute(name)
