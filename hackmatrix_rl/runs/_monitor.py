"""The monitor of a running training, and its profiler."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import jax

from hackmatrix_rl.config import RunConfig
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._health import Health
from hackmatrix_rl.runs._versions import record_start
from hackmatrix_rl.runs.sinks import Sink, read_json_lines
from hackmatrix_rl.system import Usage
from hackmatrix_rl.training import Metrics, Reports


class Profiler:
    """Records some updates with JAX's profiler.

    It skips the first dispatch, which touches memory and fills caches. Then it records whole
    dispatches until it has enough updates, or to the end of the run. `None`: no recording.
    """

    def __init__(self, updates: int | None, folder: Path, *, report: Callable[[str], None]) -> None:
        self._wanted = updates
        self._folder = folder
        self._report = report
        self._began: int | None = None
        self._newest = 0

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *error: object) -> None:
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


class RunMonitor:
    """Logs each dispatch with the use of the machine, and reports signs of trouble.

    On entry, at the start of a run, it records software and hardware, and reads what the run logged
    before it was resumed. Any of the `reports` of the checks inside the program (`--debug`) is a
    stop.
    """

    def __init__(
        self, config: RunConfig, folder: RunFolder, sink: Sink, *, reports: Reports | None = None
    ) -> None:
        self._sink = sink
        self._health = Health.of(config)
        self._reports = reports
        self._usage = Usage()
        self._profiler = Profiler(config.profile, folder.path / "profile", report=sink.note)
        self._versions = folder.versions
        self._metrics = folder.metrics
        self._first = folder.process == 0
        self._leave = ExitStack()
        self._stopped = False

    def __enter__(self) -> "RunMonitor":
        if self._first:
            try:
                for change in record_start(self._versions):
                    self._sink.note(change)
            except OSError as error:  # useful, but not required
                self._sink.note(f"could not write {self._versions}: {error}")
            if self._metrics.exists():  # of a resumed run; other processes may not see it
                self._health.recall(read_json_lines(self._metrics))
        self._leave.enter_context(self._profiler)
        return self

    def __exit__(self, *error: object) -> None:
        self._leave.close()

    def begin(self, config: RunConfig) -> None:
        """Takes the limits of the next stage."""
        self._health = Health.of(config)

    @property
    def sound(self) -> bool:
        """Whether the state may be saved: not while nothing is finite, and not after a stop."""
        return self._health.sound and not self._stopped

    def look(self, metrics: Metrics) -> bool:
        """Logs and checks a dispatch; whether training must stop, without another checkpoint."""
        self._sink.write({**metrics.as_dict(), **self._usage.read()})
        self._profiler.look(metrics)
        for finding in self._health.look(metrics):
            self._sink.note(finding.message)
            self._stopped = self._stopped or finding.stop
        for line in () if self._reports is None else self._reports.take():
            self._sink.note(f"--debug, update {metrics.updates:,}: {line}. Stopping.")
            self._stopped = True
        return self._stopped
