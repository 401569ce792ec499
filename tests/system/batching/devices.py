"""Tracing programs for devices that are not here."""

from contextlib import contextmanager
from unittest import mock

import jax

from hackmatrix_rl.system.batching import _device


@contextmanager
def traced_as_on(platform):
    """Traces programs as they are for this kind of device; they still run on what is here."""
    jax.clear_caches()  # traced programs are kept, and the mock is no part of their keys
    with mock.patch.object(_device, "_platform", return_value=platform):
        yield
    jax.clear_caches()
