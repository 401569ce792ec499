"""For tests of what programs do, not of how fast: compiling takes most of their time."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def quickly() -> Iterator[None]:
    """Programs are compiled with few optimizations meanwhile."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
