"""The settings of a run: fields, presets, files, names, the registry of algorithms.

`RunConfig` has the settings of every run, `TrainConfig` those of every training of a single player.
The config of an algorithm is in its package in `hackmatrix_rl.algorithms`.

The public names are in `__init__.pyi`. Each is imported on first use, because commands that play no
game need no JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
