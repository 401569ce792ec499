"""Lines of bounded length over the pipes of another program, with timeouts."""

import math
import os
import select
import time
from collections.abc import Callable
from typing import IO

LONGEST = 2**17
"""Most bytes of a line. A screen takes 5,000 bytes, or 20,000 with something on every cell."""

_CHUNK = 2**16
_SLICE = 0.2
"""Seconds between checks whether the program still runs."""


class LongLineError(ValueError):
    """A line of more than `LONGEST` bytes."""


class Pipes:
    """The standard input and output of a program, as lines.

    Both pipes are nonblocking, so no call waits longer than its timeout, whatever the program and
    its children do.

    Args:
        requests: the program's input.
        answers: the program's output.
        patience: timeout in seconds.
        has_ended: whether the program has exited. Its children may still hold its output open.
    """

    def __init__(
        self,
        requests: IO[bytes],
        answers: IO[bytes],
        *,
        patience: float,
        has_ended: Callable[[], bool],
    ) -> None:
        self._requests, self._answers = requests, answers
        self._patience, self._has_ended = patience, has_ended
        self._read = bytearray()
        for each in (requests, answers):
            os.set_blocking(each.fileno(), False)

    def write(self, line: bytes) -> None:
        until, rest = time.monotonic() + self._patience, memoryview(line)
        while rest:
            self._wait(self._requests, select.POLLOUT, until)
            try:
                rest = rest[os.write(self._requests.fileno(), rest) :]
            except BlockingIOError:  # there is room, but less than the line needs
                time.sleep(0.01)

    def read(self, until: float = math.inf) -> bytes:
        """The next line; empty at the end of the output.

        Args:
            until: the deadline on the clock `time.monotonic`. Without one, a line may take any time
                while the program runs, and `patience` seconds after it has exited.
        """
        while (end := self._read.find(b"\n") + 1) == 0 and len(self._read) <= LONGEST:
            self._wait(self._answers, select.POLLIN, until)
            chunk = os.read(self._answers.fileno(), _CHUNK)
            if not chunk:
                end = len(self._read)
                break
            self._read += chunk
        if (end or len(self._read)) > LONGEST:
            raise LongLineError(f"a line of more than {LONGEST:,} bytes")
        line = bytes(self._read[:end])
        del self._read[:end]
        return line

    def _wait(self, file: IO[bytes], event: int, until: float) -> None:
        waiting = select.poll()
        waiting.register(file, event)
        while not waiting.poll(1000 * min(_SLICE, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until:
                raise TimeoutError
            if until == math.inf and self._has_ended():
                until = time.monotonic() + self._patience
