"""Keeps messages from the threads of storage libraries off the terminal."""

import gc
import logging
import re
import sys
import threading
import traceback
from typing import Any

_LOGGERS = ("absl", "asyncio", "concurrent.futures")
# From a thread of a failed save that passes its result to a closed event loop.
_TOO_LATE = "Event loop is closed"


class Complaints:
    """A context that collects Orbax's log and the errors of Orbax's and TensorStore's threads.

    The caller reports a failed save in one line, but the libraries print pages of tracebacks.
    This keeps one of each kind. Errors of other threads are printed as usual. Threads of a failed
    save may end after the context, and Python reports a failed task only when it is collected. So
    once a message was collected, the hooks stay installed after the context.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._kept_any = False
        self._before: tuple[Any, Any] = (sys.unraisablehook, threading.excepthook)

    def __enter__(self) -> "Complaints":
        self._before = (sys.unraisablehook, threading.excepthook)
        sys.unraisablehook, threading.excepthook = self._from_library, self._from_thread
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._keep)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._kept_any:
            gc.collect()  # reports failed tasks
            return
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._keep)
        sys.unraisablehook, threading.excepthook = self._before

    def take(self) -> list[str]:
        """The collected texts, each traceback once."""
        texts, self._texts = list(self._texts.values()), {}
        return texts

    def _add(self, text: str) -> None:
        # Messages of a kind differ in names and numbers, but their last lines start alike.
        self._kept_any = True
        last = text.strip().splitlines()[-1]
        self._texts.setdefault(re.split(r"[\"\d]", last)[0], text)

    def _keep(self, record: logging.LogRecord) -> bool:
        text = logging.Formatter().format(record)
        of_save = "orbax" in record.pathname + text or _TOO_LATE in text
        if record.levelno < logging.ERROR or not of_save:
            return True
        self._add(text)
        return False

    def _from_library(self, raised: Any) -> None:
        """Only TensorStore raises here without an object."""
        if raised.object is None:
            self._add("".join(traceback.format_exception(raised.exc_value)))
        else:
            self._before[0](raised)

    def _from_thread(self, raised: threading.ExceptHookArgs) -> None:
        trace = raised.exc_type, raised.exc_value, raised.exc_traceback
        text = "".join(traceback.format_exception(*trace))
        if "orbax" in text:
            self._add(text)
        else:
            self._before[1](raised)
