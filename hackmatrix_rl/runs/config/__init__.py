"""The settings of a run: fields, presets, files, names, the registry of algorithms.

`RunConfig` has what every run has, `TrainConfig` what every training on HackMatrix has. The config
of an algorithm is in its package in `hackmatrix_rl.algorithms`.

The public names stand in `__init__.pyi`. Each is imported when it is first used, because commands
that play nothing do without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
