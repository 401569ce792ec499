"""Q-learning on rollouts, without a replay buffer and without a target network.

The public names are in `__init__.pyi`. Each is imported on first use, because commands that play
nothing do not need JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
