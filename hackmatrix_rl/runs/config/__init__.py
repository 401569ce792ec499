"""The settings of a run: fields, presets, files, names, the registry of algorithms.

`RunConfig` has the settings of every run, `TrainConfig` of every training of a single player.
The config of an algorithm is in its package in `hackmatrix_rl.algorithms`.

`__init__.pyi` lists the public names. Each is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
