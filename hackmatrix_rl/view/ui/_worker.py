"""One thread that does what takes long, one job after another."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Worker:
    """One thread for all jobs, so that none needs a lock. It does not keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._doing = ""
        self._since = 0.0
        self._running = False
        threading.Thread(target=self._run, name="hackmatrix-rl ui", daemon=True).start()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Queues a job; the future has its result or its exception."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future

    def say(self, doing: str) -> None:
        """Says what the running job does now, in words; empty for nothing."""
        if doing.split(":")[0] != self._doing.split(":")[0]:
            self._since = time.monotonic()
        self._doing = doing

    @property
    def running(self) -> bool:
        """Whether a job runs. The interpreter must not end then: compiled code calls it."""
        return self._running

    @property
    def status(self) -> tuple[str, float]:
        """The current activity, and its duration in seconds."""
        doing = self._doing
        return doing, time.monotonic() - self._since if doing else 0.0

    def _run(self) -> None:
        while True:
            job, future = self._jobs.get()
            if not future.set_running_or_notify_cancel():
                continue
            self._running = True
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._running = False
                self.say("")
