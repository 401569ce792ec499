"""The command line: one small file for each command.

The public names stand in `__init__.pyi`: `main`, and what the commands of algorithms are made of.
Each is imported when it is first used, because `main` answers `--help` without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
