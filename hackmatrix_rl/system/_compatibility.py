"""Everything that depends on versions of other packages.

If XLA cannot compile a program with an option, it ends the process, and no exception can be
caught. So an option is used only with versions of jaxlib that compiled and ran the package's
programs with it (`python benchmarks/compiler_options.py --check`). Any other version compiles with
XLA's own options.
"""

import re
from collections.abc import Mapping
from typing import Any

import jaxlib.version
from jax._src import xla_bridge

Options = Mapping[str, str | bool]

_LEVEL = "xla_backend_optimization_level"
_NONE: Options = {}

# At LLVM's first level of optimization compiling is a third faster, and the program is as fast as
# at the third: XLA vectorizes loops itself and passes products to a library. The second option
# keeps reductions of more than 32 numbers one loop each; XLA would make three.
_FASTER: Options = {_LEVEL: "1", "xla_disable_hlo_passes": "tree_reduction_rewriter"}

CPU_OPTIONS: Mapping[str, Options] = {
    "0.8.1": _FASTER,
    "0.10.2": _FASTER,
    # XLA's own options are as fast from here on.
    "0.12.0": _NONE,
    "0.12.0.1": _NONE,
}
"""Options of the CPU's compiler, by each tested version of jaxlib."""

GPU_OPTIONS: Options = {
    # A graph of kernels contains loops, too: none waits until the host has read its condition.
    # Collectives are not among these kinds: in graphs, runs of others have hung without a word.
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
    "DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": "1",
}
"""Options of the GPU's compiler."""

GPU_VERSIONS = ("0.8.1", "0.12.0.1")
"""The first and the last version of jaxlib whose compiler is known to take them (`nox -s
gpu_options`). Programs ran with them on an H100 with 0.11.2."""


def gpu_options(version: str = jaxlib.version.__version__) -> dict[str, str | bool]:
    """Options of the GPU's compiler that work with a version of jaxlib."""
    first, last = map(_numbers, GPU_VERSIONS)
    return dict(GPU_OPTIONS if first <= _numbers(version) <= last else _NONE)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def cpu_options(
    version: str = jaxlib.version.__version__, *, once: bool = False
) -> dict[str, str | bool]:
    """Options of the CPU's compiler that work with a version of jaxlib.

    For a program that runs only `once`, only compile time counts.
    """
    options = dict(CPU_OPTIONS.get(version, _NONE))
    if once and options:
        options[_LEVEL] = "0"
    return options


def quick_options(version: str = jaxlib.version.__version__) -> dict[str, str | bool]:
    """Those options of the CPU's compiler that change no bit of what a program computes.

    An evaluation compiles in two thirds of the time, and plays as fast. The other options change
    the order in which many numbers are added.
    """
    return {name: value for name, value in cpu_options(version).items() if name == _LEVEL}


def untested_version(platform: str, version: str = jaxlib.version.__version__) -> str | None:
    """One line about a version of jaxlib that is untested on a platform; `None` for a tested one.

    Args:
        platform: of the devices, as `jax.default_backend` returns it.
        version: of jaxlib.
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


def wandb_timeouts(settings: type, *, seconds: float) -> dict[str, Any]:
    """Time limits for the start and the end, among the settings that this version of wandb has.

    Up to wandb 0.25 the library has no limit at the end.
    """
    known = {name for each in settings.__mro__ for name in getattr(each, "__annotations__", ())}
    return {name: seconds for name in ("init_timeout", "finish_timeout") if name in known}


def wandb_sync() -> tuple[str, ...]:
    """The command that sends what was logged offline, where each start of a run has its own folder.

    By `wandb sync` alone, versions up to 0.29 write a later folder's rows over the rows of the
    first. With `--append` they add them, as newer versions do, which lack the option.
    """
    from wandb.cli.cli import sync  # few runs use it

    options = {name for each in sync.params for name in each.opts}
    return ("wandb", "sync", *(["--append"] if "--append" in options else []))


def backend_started() -> bool:
    """Whether JAX has started a device. JAX has no public function for this."""
    return bool(xla_bridge.backends_are_initialized())
