"""Whether a run has several processes, and how long they wait. Commands read it without JAX."""

import sys

CONNECT_SECONDS = 60
"""How long processes wait for one another at the start."""
HEARTBEAT_SECONDS = 60
"""How long a process may be silent before it counts as lost."""


def is_single_process() -> bool:
    """Whether the run has only this process. This starts no device, and imports no JAX."""
    if "jax" not in sys.modules:
        return True
    import jax

    return not jax.distributed.is_initialized()
