"""A queue in front of a sink that may be slow or broken."""

import queue
import threading
from collections.abc import Callable
from pathlib import Path

from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system.errors import whole


class Queued(Sink):
    """Passes everything on in a separate thread, so training never waits.

    Rows and messages that do not fit into the queue are dropped and counted (`dropped`); a message
    reports the first one, and another the total at the end. Only the first error of the sink is
    reported. `patience` is the time in seconds that `close` waits for the rest of the queue.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        capacity: int = 1000,
        patience: float = 60.0,
        report: Callable[[str], None],
    ) -> None:
        self._sink = sink
        self._name = type(sink).__name__
        self._capacity = whole("capacity", capacity)
        self._patience = patience
        self._report = report
        # Unbounded, so the end marker always fits; `_put` enforces the capacity.
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self._failed = self.dropped = 0
        self._failure_reported = self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"{self._name} queue", daemon=True)
        self._thread.start()

    def write(self, row: Row) -> None:
        kept = dict(row)
        self._put(lambda: self._sink.write(kept))

    def note(self, message: str) -> None:
        self._put(lambda: self._sink.note(message))

    def show(self, page: Path) -> None:
        self._put(lambda: self._sink.show(page))

    def film(self, draw: Callable[[], Path]) -> None:
        self._put(lambda: self._sink.film(draw))

    def keep(self, checkpoint: Path) -> None:
        self._put(lambda: self._sink.keep(checkpoint))

    def close(self) -> None:
        """Waits, at most `patience`, until the queue is empty and the sink is closed."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._thread.join(self._patience)
        self._report_failure()
        if self._thread.is_alive():
            left = max(0, self._jobs.qsize() - 1)  # the last entry marks the end
            self._report(
                f"{self._name}: gave up after {self._patience:g} s; {left} rows and messages "
                "were still waiting"
            )
        if self.dropped or self._failed:
            self._report(
                f"{self._name}: {self.dropped} rows and messages were dropped, "
                f"{self._failed} failed"
            )

    def _put(self, job: Callable[[], None]) -> None:
        if self._closed:
            return
        self._report_failure()
        if self._jobs.qsize() < self._capacity:
            self._jobs.put(job)
            return
        self.dropped += 1
        if self.dropped == 1:
            self._report(
                f"{self._name}: does not keep up; rows are dropped until it does. "
                "Training continues."
            )

    def _report_failure(self) -> None:
        """Reports in the caller's thread, because only one thread writes to sinks."""
        if self._failure_reported or self._errors.empty():
            return
        self._failure_reported = True
        error = self._errors.get()
        what = f"{type(error).__name__}: {error}"
        self._report(f"{self._name}: {' '.join(what.split())}. Training continues.")

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._attempt(job)
        self._attempt(self._sink.close)

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # any error of a library: reported and counted
            self._failed += 1
            self._errors.put(error)
