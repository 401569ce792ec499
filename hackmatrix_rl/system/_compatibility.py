"""Everything that depends on the versions of other packages.

If XLA cannot compile a program with an option, it aborts the process without an exception. So an
option is used only with versions of jaxlib that compiled and ran the package's programs with it
(`python benchmarks/compiler_options.py --check`). Other versions compile with XLA's defaults.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import jaxlib.version

# Only for `backend_started`: JAX has no public function that does not start a device.
from jax._src import xla_bridge

Options = Mapping[str, str | bool]

_LEVEL = "xla_backend_optimization_level"
_NONE: Options = {}

# At LLVM's optimization level 1 compilation is a third faster, and programs are as fast as at level
# 3: XLA vectorizes loops itself and calls a library for matrix products. The second option keeps a
# reduction of more than 32 numbers a single loop, which XLA would split into three.
_FASTER: Options = {_LEVEL: "1", "xla_disable_hlo_passes": "tree_reduction_rewriter"}

CPU_OPTIONS: Mapping[str, Options] = {
    "0.8.1": _FASTER,
    "0.10.2": _FASTER,
    # XLA's defaults are as fast from this version on.
    "0.12.0": _NONE,
    "0.12.0.1": _NONE,
}
"""Options of the CPU compiler, by tested version of jaxlib."""

GPU_OPTIONS: Options = {
    # Command buffers include loops, so that the host need not read their conditions. They exclude
    # collectives, which have caused hangs in command buffers.
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
    "DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": "1",
}
"""Options of the GPU compiler."""

GPU_VERSIONS = ("0.8.1", "0.12.0.1")
"""The first and the last version of jaxlib whose compiler accepts `GPU_OPTIONS` (`nox -s
gpu_options`). Programs were run with them on an H100 with 0.11.2."""


def gpu_options(version: str = jaxlib.version.__version__) -> dict[str, str | bool]:
    """Options of the GPU compiler for a version of jaxlib."""
    first, last = map(_numbers, GPU_VERSIONS)
    return dict(GPU_OPTIONS if first <= _numbers(version) <= last else _NONE)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def cpu_options(
    version: str = jaxlib.version.__version__, *, once: bool = False
) -> dict[str, str | bool]:
    """Options of the CPU compiler for a version of jaxlib.

    For a program that runs only `once`, they minimize the compilation time.
    """
    options = dict(CPU_OPTIONS.get(version, _NONE))
    if once and options:
        options[_LEVEL] = "0"
    return options


def quick_options(version: str = jaxlib.version.__version__) -> dict[str, str | bool]:
    """The options of the CPU compiler that do not change the bits of a program's results.

    With them an evaluation compiles in two thirds of the time and runs as fast. The other options
    change the order of summation.
    """
    return {name: value for name, value in cpu_options(version).items() if name == _LEVEL}


def untested_version(platform: str, version: str = jaxlib.version.__version__) -> str | None:
    """A line about a version of jaxlib that is untested on a platform; `None` for a tested one.

    Args:
        platform: the platform of the devices, as from `jax.default_backend`.
        version: the version of jaxlib.
    """
    if platform == "gpu":
        first, last = GPU_VERSIONS
        if gpu_options(version):
            return None
        return (
            f"jaxlib {version} is not among the versions that were tested for GPUs ({first} to "
            f"{last}); loops ask the host after each round, which is several times slower. "
            f"Install one: pip install 'jax[cuda13]<={last}'"
        )
    if version in CPU_OPTIONS:
        return None
    tested = list(CPU_OPTIONS)
    return (
        f"jaxlib {version} is not among the versions that were tested ("
        f"{', '.join(tested)}); programs are compiled with XLA's own options"
    )


JAXLIB_RELEASES: Mapping[str, date] = {
    "0.8.1": date(2025, 11, 18),
    "0.8.2": date(2025, 12, 18),
    "0.9.0": date(2026, 1, 20),
    "0.9.1": date(2026, 3, 2),
    "0.9.2": date(2026, 3, 18),
    "0.10.0": date(2026, 4, 16),
    "0.10.1": date(2026, 5, 20),
    "0.10.2": date(2026, 6, 17),
    "0.11.0": date(2026, 7, 16),
    "0.11.1": date(2026, 8, 17),
    "0.11.2": date(2026, 9, 17),
    "0.12.0": date(2026, 10, 19),
    "0.12.0.1": date(2026, 10, 21),
}
"""When the versions of jaxlib were released, oldest first."""

_EXPORT_MONTHS = 6


def exports_load_until(version: str = jaxlib.version.__version__) -> date:
    """The date of the last releases of JAX that must load an export of a version of jaxlib.

    JAX guarantees to load the exports of versions that are up to 6 months older than itself; when
    an export was written does not matter ("Compatibility guarantees" in the documentation of
    `jax.export`). A version that is not listed counts from the newest one before it, which gives a
    date that is too early, never one that is too late.
    """
    before = [each for each in JAXLIB_RELEASES if _numbers(each) <= _numbers(version)]
    released = JAXLIB_RELEASES[before[-1] if before else next(iter(JAXLIB_RELEASES))]
    years, month = divmod(released.month - 1 + _EXPORT_MONTHS, 12)
    return date(released.year + years, month + 1, min(released.day, 28))


def wandb_timeouts(settings: type, *, seconds: float) -> dict[str, Any]:
    """The settings of this version of wandb that limit the time of its start and its end.

    Up to wandb 0.25 there is no limit for the end.
    """
    known = {name for each in settings.__mro__ for name in getattr(each, "__annotations__", ())}
    return {name: seconds for name in ("init_timeout", "finish_timeout") if name in known}


def wandb_sync() -> tuple[str, ...]:
    """The command that uploads offline runs. Each start of a run has its own folder.

    Without `--append`, versions up to 0.29 overwrite the rows of the first folder with those of the
    next. Newer versions always append, and lack the option.
    """
    from wandb.cli.cli import sync  # few runs use it

    options = {name for each in sync.params for name in each.opts}
    return ("wandb", "sync", *(["--append"] if "--append" in options else []))


def backend_started() -> bool:
    """Whether JAX has started a device. JAX has no public function for this."""
    return bool(xla_bridge.backends_are_initialized())
