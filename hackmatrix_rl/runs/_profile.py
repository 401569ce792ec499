"""A profiler trace of some updates."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import jax

from hackmatrix_rl.training import Metrics


class Profiler:
    """Records some updates with JAX's profiler.

    It skips the first dispatch, which touches memory and fills caches. Then it records whole
    dispatches until it has enough updates, or to the end of the run.

    Args:
        updates: number of updates to record; `None`: no recording.
        folder: folder of the trace, for TensorBoard's profiler, xprof or Perfetto.
        report: takes a line when the trace is written.
    """

    def __init__(self, updates: int | None, folder: Path, *, report: Callable[[str], None]) -> None:
        self._wanted = updates
        self._folder = folder
        self._report = report
        self._began: int | None = None
        self._newest = 0

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._began is not None:
            self._stop(self._began)

    def look(self, metrics: Metrics) -> None:
        """Starts or ends the recording. Call it after each dispatch."""
        self._newest = metrics.updates
        if self._wanted is None:
            return
        if self._began is None:
            jax.profiler.start_trace(str(self._folder))
            self._began = metrics.updates
        elif metrics.updates - self._began >= self._wanted:
            self._stop(self._began)

    def _stop(self, began: int) -> None:
        jax.profiler.stop_trace()
        self._wanted = self._began = None
        self._report(f"profiler trace of {self._newest - began} updates: {self._folder}")
