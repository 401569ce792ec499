"""How long compiling took last time on this machine, for an estimate of the next time."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import jax

from hackmatrix_rl.errors import DamagedFileError
from hackmatrix_rl.system._compilation_cache import cached_programs, compilation_cache
from hackmatrix_rl.system._devices import chosen_devices
from hackmatrix_rl.system._files import read_json, set_aside, write_json
from hackmatrix_rl.system._hosts import is_process_zero
from hackmatrix_rl.system._ticking import ticking

FILE = "hackmatrix_rl_compile_times.json"
"""Name of the file in the folder of the compilation cache."""

_COMPILED, _LOADED = "compiled", "from_cache"
_MOST = 100  # kinds of program, the latest ones


class CompileTimes:
    """The seconds that one kind of program took, kept beside the compilation cache.

    Nothing here fails: a file that cannot be used is set aside, and without a cache nothing is
    kept.

    Attributes:
        notes: what people should know, in lines.
    """

    def __init__(self, kind: str) -> None:
        """Looks up what is known.

        Args:
            kind: a line for all programs that take about as long to compile on one machine; the
                kind of device and the version of JAX join it here.
        """
        self.notes: list[str] = []
        folder = compilation_cache()
        self._file = None if folder is None else folder / FILE
        self._kind = f"{kind} device={chosen_devices()[0].device_kind} jax={jax.__version__}"
        self._before = cached_programs()
        self._known = _seconds(self._read().get(self._kind))

    def line(self) -> str:
        """The line to print before compiling: the last compile time."""
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
        """Records a compile time.

        Args:
            seconds: of compiling, which began after this object was made.
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


@contextmanager
def compiling(
    kind: str,
    say: Callable[[str], None],
    *,
    tick: Callable[[float], None] = lambda seconds: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[], None]]:
    """Says how long compiling took last time, ticks while it lasts, and keeps how long it took.

    Nothing is kept of a block that an exception leaves while it compiles.

    Args:
        kind: see `CompileTimes`.
        say: takes one line before, one line after, and what people should know.
        tick: told the seconds so far, every second, from another thread.
        clock: seconds since some moment.

    Yields:
        A function to call where compiling is over, if that is before the end of the block.
    """
    times = CompileTimes(kind)
    say(times.line())
    began = clock()
    with ExitStack() as waiting:
        waiting.enter_context(ticking(tick))
        over = False

        def done() -> None:
            nonlocal over
            if over:
                return
            over = True
            waiting.close()
            seconds = clock() - began
            say(f"compiled in {seconds:.1f} s")
            times.keep(seconds)
            for note in times.notes:
                say(note)

        yield done
        done()


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
