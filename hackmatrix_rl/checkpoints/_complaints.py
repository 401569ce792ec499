"""What storage libraries print from threads of their own, kept off the terminal."""

import gc
import logging
import re
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

_LOGGERS = ("absl", "asyncio")


class Complaints:
    """While entered, collects what Orbax logs and what its threads and TensorStore's raise.

    A save that fails is reported in one line by who saves; beside it, the libraries print pages
    of tracebacks. One of each kind is kept. Errors of other threads are printed as ever.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._before: tuple[Any, Any] = (sys.unraisablehook, threading.excepthook)

    def __enter__(self) -> "Complaints":
        self._before = (sys.unraisablehook, threading.excepthook)
        sys.unraisablehook, threading.excepthook = self._from_library, self._from_thread
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._keep)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._texts:
            gc.collect()  # tasks that failed are told of when they are thrown away
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._keep)
        sys.unraisablehook, threading.excepthook = self._before

    def take(self) -> list[str]:
        """What was collected, each traceback once."""
        texts, self._texts = list(self._texts.values()), {}
        return texts

    def _add(self, text: str) -> None:
        # They differ in names and numbers, but not in how their last lines begin.
        last = text.strip().splitlines()[-1]
        self._texts.setdefault(re.split(r"[\"\d]", last)[0], text)

    def _keep(self, record: logging.LogRecord) -> bool:
        text = logging.Formatter().format(record)
        if record.levelno < logging.ERROR or "orbax" not in record.pathname + text:
            return True
        self._add(text)
        return False

    def _from_library(self, raised: Any) -> None:
        """TensorStore says of no object that it raised, and so does nobody else here."""
        if raised.object is None:
            self._add("".join(traceback.format_exception(raised.exc_value)))
        else:
            self._before[0](raised)

    def _from_thread(self, raised: threading.ExceptHookArgs) -> None:
        text = "".join(
            traceback.format_exception(raised.exc_type, raised.exc_value, raised.exc_traceback)
        )
        if "orbax" in text:
            self._add(text)
        else:
            self._before[1](raised)
