"""Meshes of devices, and the sharding of arrays over them.

The public names stand in `__init__.pyi`. Each is imported when it is first used, because commands
that play nothing do without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
