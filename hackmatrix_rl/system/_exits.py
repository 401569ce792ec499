"""Exit statuses, and the signals that ask for a stop."""

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
    """Exit status of `hackmatrix-rl train`, and what to do next."""

    DONE = 0
    """Trained to the end, and everything is saved."""
    CRASHED = 1
    """An error of the program; the traceback was printed. Understand it, then resume."""
    BAD_INPUT = 2
    """A setting that cannot work; nothing was started."""
    UNHEALTHY = 3
    """Stopped because training went wrong; the last good checkpoint is kept."""
    UNSAVED = 4
    """A disk is full: the last results, or the start of the run, could not be written. Make room,
    then resume."""
    PEER_LOST = 5
    """Another process of the run was lost. Start all of them again with `--resume-run`."""
    INTERRUPTED = 130
    """SIGINT (Ctrl-C): saved and ended. Resume at any time."""
    TERMINATED = 143
    """SIGTERM: the same. Machines send it before they shut down."""


def status_of(error: BaseException) -> ExitCode:
    """The exit status of a command that an error ends: a full disk may have room again."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return ExitCode.UNSAVED
        cause = cause.__cause__
    return ExitCode.BAD_INPUT if isinstance(error, ConfigError) else ExitCode.CRASHED


class Interrupts:
    """A context that records the first Ctrl-C (or SIGTERM); a second one ends at once.

    A stop inside the compiled program would lose the donated state. So the loop looks here
    between two dispatches. A second signal ends the process at once with the shell's usual exit
    status (128 plus the signal's number); complete checkpoints stay complete. Outside the main
    thread this does nothing, because signals arrive only there.

    Attributes:
        received: number of the signal that asked for a stop; 0 without one.
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
            # Threads that write a checkpoint would delay an ordinary exit. The message is
            # unbuffered, because the interrupted code may hold the lock of a buffer.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"Ended at once.\n")
            os._exit(128 + number)
        self.received = number
