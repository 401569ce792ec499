"""The command line: one small file for each command.

`__init__.pyi` lists the public names: `main`, and the parts of the commands of algorithms.
Each is imported when it is first used, because `--help` does not import JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
