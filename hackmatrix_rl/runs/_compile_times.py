"""How long compiling took last time on this machine, for an estimate of the next time."""

import math
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.errors import DamagedFileError
from hackmatrix_rl.system import (
    cached_programs,
    compilation_cache,
    is_process_zero,
    read_json,
    set_aside,
    write_json,
)

FILE = "hackmatrix_rl_compile_times.json"
"""Name of the file in the folder of the compilation cache."""

# Settings that decide how much there is to compile; others hardly change it.
_SETTINGS = (
    *("network", "width", "depth", "num_envs", "num_steps", "minibatches", "grad_accum", "remat"),
    *("precision", "precision_parts", "aux_coefficient", "debug"),
)
_COMPILED, _LOADED = "compiled", "from_cache"
_MOST = 100  # kinds of program, the latest ones


class CompileTimes:
    """The seconds that one kind of program took, kept beside the compilation cache.

    Nothing here fails: a file that cannot be used is set aside, and without a cache nothing is
    kept.

    Attributes:
        notes: what people should know, in lines.
    """

    def __init__(self, config: TrainConfig, mesh: Mesh) -> None:
        """Looks up what is known.

        Args:
            config: of the run.
            mesh: the devices of the run.
        """
        self.notes: list[str] = []
        folder = compilation_cache()
        self._file = None if folder is None else folder / FILE
        self._kind = _kind(config, mesh)
        self._before = cached_programs()
        self._known = _seconds(self._read().get(self._kind))

    def line(self) -> str:
        """What to say before compiling: how long it took last time."""
        compiled, loaded = (self._known.get(name) for name in (_COMPILED, _LOADED))
        if compiled is not None and loaded is not None:
            known = f"last time {_written(loaded)} from the cache, {_written(compiled)} without"
        elif compiled is not None or loaded is not None:
            known = f"{_written(compiled or loaded or 0.0)} last time"
        elif self._file is None:
            known = "this may take a minute"
        else:
            known = "this may take a minute, the first time"
        return f"compiling ... ({known})"

    def keep(self, seconds: float) -> None:
        """Writes down how long compiling took.

        Args:
            seconds: from `trainer.compile()`, which was called after this object was made.
        """
        # Process 0 alone writes into the cache.
        if self._file is None or not is_process_zero():
            return
        # A program that was compiled lies in the cache now; one that was loaded lay there before.
        came = _COMPILED if cached_programs() != self._before else _LOADED
        times = self._read()
        times.pop(self._kind, None)  # so that the latest stand last
        times[self._kind] = {**self._known, came: round(seconds, 2)}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._file, dict(list(times.items())[-_MOST:]))
        except OSError as error:
            self.notes.append(f"could not write {self._file}: {error.strerror or error}")

    def _read(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        try:
            return read_json(self._file) or {}
        except DamagedFileError as error:
            try:
                became = f"it is now {set_aside(self._file).name}"
            except OSError as failure:
                became = f"it cannot be renamed: {failure.strerror or failure}"
            note = f"{self._file}: {error}; {became}"
            if note not in self.notes:
                self.notes.append(note)
            return {}


def _kind(config: TrainConfig, mesh: Mesh) -> str:
    """One line for all programs that take about as long to compile."""
    device = mesh.devices.flat[0]
    named: dict[str, Any] = {name: getattr(config, name) for name in _SETTINGS}
    named |= {"mesh": dict(mesh.shape), "device": device.device_kind, "jax": jax.__version__}
    return " ".join(f"{name}={value}" for name, value in named.items())


def _seconds(known: object) -> dict[str, float]:
    """What a file says of one kind of program, as far as it makes sense."""
    if not isinstance(known, Mapping):
        return {}
    return {
        name: float(value)
        for name, value in known.items()
        if name in (_COMPILED, _LOADED)
        and type(value) in (int, float)
        and math.isfinite(value)
        and value >= 0
    }


def _written(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
