"""Being asked to stop, at a moment when stopping is sound."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While entered, the first Ctrl-C (or SIGTERM) is only noted; a second one interrupts.

    A signal that arrives while the compiled program runs would leave a state that was half
    given away, so the loop looks here between two dispatches. Does nothing outside of the
    main thread, where signals do not arrive.
    """

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
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

    def requested(self) -> bool:
        """Whether to stop."""
        return self._requested

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
