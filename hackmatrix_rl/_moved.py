"""Imports by the names of 0.1.0: `hackmatrix_rl.game` is `hackmatrix_rl.games.hackmatrix`."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED: Mapping[str, str] = {
    "adapters": "interop.adapters",
    "batching": "system.batching",
    "bench": "cli.bench",
    "checkpoints": "runs.checkpoints",
    "clique": "games.clique",
    "config": "runs.config",
    "errors": "system.errors",
    "export": "runs.export",
    "game": "games.hackmatrix",
    "memory_tasks": "env.memory_tasks",
    "protocol": "interop.protocol",
    "puzzles": "games.puzzles",
    "sweeps": "runs.sweeps",
}
"""The packages that moved, by name below `hackmatrix_rl`. One version reads the old names."""

ROOT = "hackmatrix_rl."


class _Moved(MetaPathFinder, Loader):
    """Makes a module by an old name, with the attributes of the new one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name.startswith(ROOT) and name.removeprefix(ROOT).split(".")[0] in MOVED
        return ModuleSpec(name, self, is_package=True) if known else None

    def exec_module(self, module: ModuleType) -> None:
        first, *rest = module.__name__.removeprefix(ROOT).split(".")
        now = ".".join((ROOT + MOVED[first], *rest))
        warnings.warn(
            f"{module.__name__} is now {now}; the old name goes with the next version",
            DeprecationWarning,
            stacklevel=2,  # Python leaves its own frames of an import out
        )
        moved = import_module(now)
        module.__doc__ = moved.__doc__
        module.__dict__.update(
            __getattr__=lambda name: getattr(moved, name), __dir__=lambda: dir(moved)
        )
        if hasattr(moved, "__all__"):
            module.__dict__["__all__"] = moved.__all__


def read_old_names() -> None:
    """Lets imports find what moved."""
    sys.meta_path.append(_Moved())
