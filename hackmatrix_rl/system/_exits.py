"""Exit statuses, and signals that request a stop."""

import errno
import os
import signal
import sys
import threading
from enum import IntEnum
from types import FrameType
from typing import Any

from hackmatrix_rl.system.errors import ConfigError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ExitCode(IntEnum):
    """Exit statuses of `hackmatrix-rl train`, and what to do next."""

    DONE = 0
    """Training is complete, and everything is saved."""
    CRASHED = 1
    """An error of the program; the traceback was printed. Fix its cause, then resume."""
    BAD_INPUT = 2
    """An invalid setting; nothing was started."""
    UNHEALTHY = 3
    """Training was stopped as unhealthy; the last good checkpoint is kept."""
    UNSAVED = 4
    """The disk is full: the last results, or the start of the run, could not be written. Free some
    space, then resume."""
    PEER_LOST = 5
    """Another process of the run was lost. Restart all processes with `--resume-run`."""
    INTERRUPTED = 130
    """SIGINT (Ctrl-C): the run was saved and stopped. Resume at any time."""
    TERMINATED = 143
    """SIGTERM, which machines send before a shutdown: as for SIGINT."""


def status_of(error: BaseException) -> ExitCode:
    """The exit status of a command that failed with an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return ExitCode.UNSAVED
        cause = cause.__cause__
    return ExitCode.BAD_INPUT if isinstance(error, ConfigError) else ExitCode.CRASHED


class Interrupts:
    """A context that records the first SIGINT or SIGTERM.

    A stop inside the compiled program would lose the donated state, so the training loop checks
    `received` between dispatches. A second signal ends the process immediately with the exit status
    128 plus its number; complete checkpoints stay intact. Outside of the main thread, which alone
    receives signals, the context does nothing.

    Attributes:
        received: number of the signal; 0 without one.
    """

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            # Threads that write a checkpoint would delay a normal exit. The message is unbuffered,
            # because the interrupted code may hold the lock of a buffer.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"Ended at once.\n")
            os._exit(128 + number)
        self.received = number
