"""Timeouts of runs with several processes. Commands read them without importing JAX."""

import sys

CONNECT_SECONDS = 60
"""How long processes wait for each other at the start."""
HEARTBEAT_SECONDS = 60
"""Seconds without a heartbeat after which a process counts as lost."""


def is_single_process() -> bool:
    """Whether the run has only this process. This neither starts a device nor imports JAX."""
    if "jax" not in sys.modules:
        return True
    import jax

    return not jax.distributed.is_initialized()
