"""A sink that may be slow or broken, at a distance."""

import queue
import threading
from collections.abc import Callable

from hackmatrix_rl.runs.sinks._sink import (
    Row,
    Sink,
)


class Queued(Sink):
    """Hands everything on in a thread of its own, so that training never waits.

    What does not fit into the queue is dropped and counted: said when it begins, and in total
    at the end. What the sink raises is said once and counted likewise.

    Args:
        sink: what may be slow or broken. After this it is used by the thread alone.
        capacity: rows and messages that may wait.
        patience: seconds that `close` waits for what is left to be handed on.
        report: takes what there is to say; called by the thread that writes and closes.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        capacity: int = 1000,
        patience: float = 60.0,
        report: Callable[[str], None],
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self._sink = sink
        self._name = type(sink).__name__
        self._capacity = capacity
        self._patience = patience
        self._report = report
        # Unbounded itself, so that there is always room for the end; `_put` keeps the bound.
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self._failed = self._dropped = 0
        self._failure_told = self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"{self._name} queue", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Rows and messages that found no room."""
        return self._dropped

    def write(self, row: Row) -> None:
        """Queues the row; returns at once."""
        kept = dict(row)
        self._put(lambda: self._sink.write(kept))

    def note(self, message: str) -> None:
        """Queues the line; returns at once."""
        self._put(lambda: self._sink.note(message))

    def close(self) -> None:
        """Waits, but not for ever, until all is handed on and the sink is closed."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._thread.join(self._patience)
        self._tell_failure()
        if self._thread.is_alive():
            left = max(0, self._jobs.qsize() - 1)  # the last is the mark of the end
            self._report(
                f"{self._name}: gave up after {self._patience:g} s; {left} rows and messages "
                "were still waiting"
            )
        if self._dropped or self._failed:
            self._report(
                f"{self._name}: {self._dropped} rows and messages were dropped, "
                f"{self._failed} failed"
            )

    def _put(self, job: Callable[[], None]) -> None:
        if self._closed:
            return
        self._tell_failure()
        if self._jobs.qsize() < self._capacity:
            self._jobs.put(job)
            return
        self._dropped += 1
        if self._dropped == 1:
            self._report(
                f"{self._name}: does not keep up; rows are dropped from here on until it does. "
                "Training goes on."
            )

    def _tell_failure(self) -> None:
        """In the caller's thread: sinks are not written from two threads."""
        if self._failure_told or self._errors.empty():
            return
        self._failure_told = True
        error = self._errors.get()
        what = f"{type(error).__name__}: {error}"
        self._report(f"{self._name}: {' '.join(what.split())}. Training goes on.")

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._attempt(job)
        self._attempt(self._sink.close)

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # whatever a library raises: told, counted, survived
            self._failed += 1
            self._errors.put(error)
