"""How every test runs: shapes checked, no silent promotion, several CPU devices."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

# Before JAX is imported: it reads these once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    ).strip()

import compiling
import jax
import pytest

import hackmatrix_rl

# Before the package's modules are imported: every annotated shape and dtype is checked.
hackmatrix_rl.check_types()

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def _compilation_cache() -> str:
    """A folder for compiled programs that all processes of this run share.

    It goes with the run, unless `JAX_COMPILATION_CACHE_DIR` names one that is to stay.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="hackmatrix_rl_tests_")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder  # pytest's workers find it there
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.environ["JAX_COMPILATION_CACHE_DIR"]


jax.config.update("jax_compilation_cache_dir", _compilation_cache())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(scope="session")
def cache() -> str:
    """The folder of compiled programs, for processes that a test starts and does not kill."""
    return _compilation_cache()


@pytest.fixture(scope="module")
def compile_quickly() -> Iterator[None]:
    """Few optimizations in a module that asks for it."""
    with compiling.quickly():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--statistical",
        action="store_true",
        help="also run the tests that draw tens of thousands of games",
    )
    parser.addoption(
        "--matrix",
        action="store_true",
        help="also run every combination of precision, mesh, network and gradients in parts",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=3,
        help="how often a run is killed in the test of kills at random times",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for marker in ("statistical", "matrix"):
        if config.getoption(f"--{marker}") or marker in config.getoption("-m"):
            continue
        skip = pytest.mark.skip(reason=f"{marker}: asked for with --{marker}")
        for item in items:
            if marker in item.keywords:
                item.add_marker(skip)
