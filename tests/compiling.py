"""Tests compile with few optimizations: compiling takes most of their time."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def optimized() -> Iterator[None]:
    """Programs are compiled as users' are meanwhile."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
