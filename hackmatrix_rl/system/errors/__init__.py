"""Errors for users, and checks of the values that users pass in.

The public names stand in `__init__.pyi`. Each is imported when it is first used: some need JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
