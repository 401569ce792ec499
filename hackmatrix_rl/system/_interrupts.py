"""Being asked to stop, at a moment when stopping is sound."""

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, the first Ctrl-C (or SIGTERM) is only noted; a second one ends at once.

    A signal that arrives while the compiled program runs would leave a state that was half
    given away, so the loop looks here between two dispatches. A second signal ends the process
    without finishing anything, with the exit status that a shell expects of it (128 and the
    signal's number); complete checkpoints stay complete. Does nothing outside of the main
    thread, where signals do not arrive.
    """

    def __init__(self) -> None:
        self._received = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @property
    def received(self) -> int:
        """Number of the signal that asked to stop; 0 if none did."""
        return self._received

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._received:
            # Threads that write a checkpoint would hold an ordinary exit up. The message
            # goes out unbuffered: a buffer may be locked by what was interrupted here.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"Ended at once.\n")
            os._exit(128 + number)
        self._received = number
