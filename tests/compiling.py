"""Tests compile with few optimizations: compiling takes most of their time."""

import logging
import re
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


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of the programs that are compiled meanwhile, each as often as it is."""
    found: list[str] = []

    class Names(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = r"Finished XLA compilation of (?:jit\()?(\w+|<\w+>)"
            named = re.match(said, record.getMessage())
            if named:
                found.append(named[1])

    names, log = Names(), logging.getLogger("jax._src.dispatch")
    log.addHandler(names)
    try:
        with jax.log_compiles():
            yield found
    finally:
        log.removeHandler(names)
