"""What depends on versions of other packages: all of it stands here.

XLA ends the process where an option of the compiler meets a program that it cannot compile, so
nothing can be caught. An option is therefore used only with versions of jaxlib that compiled and
ran the package's programs with it (`python benchmarks/compiler_options.py --check`). Any other
version compiles with XLA's own options.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jaxlib.version
from jax._src import xla_bridge

Options = Mapping[str, str | bool]

_LEVEL = "xla_backend_optimization_level"
_NONE: Options = MappingProxyType({})

# LLVM's first level of optimization: the program is as fast as at the third, for its loops are
# vectorized and its products computed elsewhere, and compiling is a third faster. And reductions of
# more than 32 numbers stay one loop each, where XLA would make three of them.
_FASTER: Options = MappingProxyType(
    {_LEVEL: "1", "xla_disable_hlo_passes": "tree_reduction_rewriter"}
)

CPU_OPTIONS: Mapping[str, Options] = MappingProxyType(
    {
        "0.8.1": _FASTER,
        "0.10.2": _FASTER,
        # XLA's own options are as fast from here on.
        "0.12.0": _NONE,
        "0.12.0.1": _NONE,
    }
)
"""Options of the CPU's compiler by version of jaxlib: those versions that were tested."""


def cpu_options(
    version: str = jaxlib.version.__version__, *, once: bool = False
) -> dict[str, str | bool]:
    """Options of the CPU's compiler that this version of jaxlib is known to bear.

    Args:
        version: of jaxlib.
        once: whether the program runs a single time, and compiling is all that it costs.
    """
    options = dict(CPU_OPTIONS.get(version, _NONE))
    if once and options:
        options[_LEVEL] = "0"
    return options


def untested_version(version: str = jaxlib.version.__version__) -> str | None:
    """One line about a version of jaxlib that was not tested; `None` for one that was.

    Args:
        version: of jaxlib.
    """
    if version in CPU_OPTIONS:
        return None
    tested = list(CPU_OPTIONS)
    return (
        f"jaxlib {version} is not among the versions that were tested ("
        f"{', '.join(tested)}); programs are compiled with XLA's own options"
    )


def wandb_timeouts(settings: type, *, seconds: float) -> dict[str, Any]:
    """Settings of Weights & Biases that limit how long it waits, as far as its version has them.

    Args:
        settings: the library's class of settings.
        seconds: to wait at the start, and again at the end. Up to wandb 0.25 there is no limit
            of the library's own at the end.
    """
    known = {name for each in settings.__mro__ for name in getattr(each, "__annotations__", ())}
    return {name: seconds for name in ("init_timeout", "finish_timeout") if name in known}


def backend_started() -> bool:
    """Whether JAX has started a device. There is no public way to ask."""
    return bool(xla_bridge.backends_are_initialized())
