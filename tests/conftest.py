"""How every test runs: no silent promotion, several CPU devices; what the options add."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

# Before JAX is imported: it reads these once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What programs compute is tried here, seldom how fast, and most of the time goes into compiling:
# these halve it. Processes that tests start do the same, but for those that run as users' do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "")
if "xla_force_host_platform_device_count" not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=8"
# An unknown flag ends the process.
if "fusion_emitters" not in os.environ["XLA_FLAGS"] and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

import compiling
import jax
import pytest

import hackmatrix_rl

# What tests train with is not remembered on the machine.
os.environ["HACKMATRIX_RL_STATE_DIR"] = tempfile.mkdtemp(prefix="hackmatrix_rl_state_")
atexit.register(shutil.rmtree, os.environ["HACKMATRIX_RL_STATE_DIR"], ignore_errors=True)

# Every annotated shape and dtype is checked, in the sessions that ask for it: it slows each trace.
# Before the package's modules are imported.
if os.environ.get("HACKMATRIX_RL_CHECK_TYPES") == "1":
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


LONG = (
    *("agent/test_action_networks.py", "agent/test_networks.py", "agent/test_probes.py"),
    *("checkpoints/test_kept_checkpoints.py", "cli/test_eval.py", "cli/test_replay.py"),
    *("env/test_conformance_through_step.py", "runs/test_every_algorithm.py"),
    *("runs/test_faults.py", "runs/test_frontier_resume.py", "runs/test_resume.py"),
    *("system/test_hosts.py", "training/test_trainer.py", "training/test_wrong_use.py"),
)


@pytest.fixture(scope="session")
def cache() -> str:
    """The folder of compiled programs, for processes that a test starts and does not kill."""
    return _compilation_cache()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """Programs compiled as users' are, in a module where speed or bits are the point."""
    with compiling.optimized():
        yield


SESSIONS = {"processes", "devices", "search", "view"}
# What needs more than the dependency group `test`.
OTHER_GROUPS = [
    Path(__file__).parent / name
    for name in (
        *(
            "accelerators",
            "interop/adapters",
            "beside_neurogym",
            "browser",
            "examples",
            "package",
            "pages",
            "site",
        ),
    )
]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A session imports its own files alone, so their markers are read from the text."""
    asked = config.getoption("--session")
    if asked is None:
        return None
    if collection_path.is_dir():
        return collection_path in OTHER_GROUPS or None
    if asked == "all" or not collection_path.name.startswith("test_"):
        return None
    markers = set(re.findall(r"pytest\.mark\.(\w+)", collection_path.read_text("utf-8")))
    return None if (asked in markers or (asked == "tests" and not markers & SESSIONS)) else True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--session",
        choices=["all", "tests", "smoke", *sorted(SESSIONS)],
        help="run the files with this marker; tests: those without a session's marker; all: both",
    )
    parser.addoption(
        "--write-fingerprints",
        action="store_true",
        help="write tests/data/fingerprints.json and help.txt again, instead of comparing",
    )
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
        "--nightly",
        metavar="PART",
        help="also run the tests marked nightly: all of them (1/1), or such a part: 2/7",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=3,
        help="how often a run is killed in the test of kills at random times",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Files are dealt out in order: a long one at the end would leave the other worker idle.
    items.sort(key=lambda item: not item.nodeid.split("::")[0].endswith(LONG))
    _skip_nightly(config, items)
    for marker in ("statistical", "matrix"):
        if config.getoption(f"--{marker}") or marker in config.getoption("-m"):
            continue
        skip = pytest.mark.skip(reason=f"{marker}: asked for with --{marker}")
        for item in items:
            if marker in item.keywords:
                item.add_marker(skip)


def _skip_nightly(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves of the tests marked nightly those of the part that is asked for."""
    asked = config.getoption("--nightly")
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", asked or "")
    number, parts = map(int, found.groups()) if found else (0, 1)
    if asked and not 1 <= number <= parts:
        raise pytest.UsageError(f"--nightly {asked}: use a part such as 2/7, or 1/1 for all")
    skip = pytest.mark.skip(reason="nightly: of another part, or asked for with --nightly")
    marked = sorted((item for item in items if "nightly" in item.keywords), key=lambda i: i.nodeid)
    for place, item in enumerate(marked):
        if place % parts != number - 1:
            item.add_marker(skip)
