"""What storage libraries print stays off the terminal, and nothing else does."""

import io
import logging
import sys
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from hackmatrix_rl.runs.checkpoints import Complaints
from hackmatrix_rl.runs.sinks import Fanout, Length, LogFile, PlainTerminal


@pytest.fixture(autouse=True)
def as_it_was():
    """What a failed save leaves in place is of no concern to other tests."""
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio", "concurrent.futures")]
    hooks = sys.unraisablehook, threading.excepthook
    filters = [list(logger.filters) for logger in loggers]
    yield
    sys.unraisablehook, threading.excepthook = hooks
    for logger, before in zip(loggers, filters, strict=True):
        logger.filters = before


def unraisable(error, of=None):
    sys.unraisablehook(
        SimpleNamespace(
            exc_type=type(error), exc_value=error, exc_traceback=None, err_msg=None, object=of
        )
    )


def record(pathname, level=logging.ERROR, text="raised an exception: disk"):
    return logging.LogRecord("absl", level, pathname, 1, text, None, None)


def fail_in_orbax():
    raise RuntimeError("disk")


def in_a_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def test_what_libraries_say_is_kept_once(capsys):
    with Complaints() as complaints:
        for _ in range(3):
            unraisable(RuntimeError("Event loop is closed"))
            logging.getLogger("absl").handle(record("/a/orbax/future.py"))
            logging.getLogger("asyncio").handle(record("base_events.py", text="/orbax/a.py: 1"))
        in_a_thread(fail_in_orbax)
    kept = complaints.take()
    assert len(kept) == 4
    assert "Event loop is closed" in kept[0]
    assert "raised an exception: disk" in kept[1]
    assert capsys.readouterr().err == ""
    assert complaints.take() == []


def test_errors_of_others_are_printed_as_ever(monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: printed.append("object"))
    monkeypatch.setattr(threading, "excepthook", lambda raised: printed.append("thread"))
    logger = logging.getLogger("absl")
    before = sys.unraisablehook, threading.excepthook, list(logger.filters)
    with Complaints() as complaints:
        unraisable(RuntimeError("mine"), of=printed)
        in_a_thread(int, "x")
        assert logger.filter(record("/a/mine.py"))
        assert logging.getLogger("asyncio").filter(record("base_events.py"))
        assert logger.filter(record("/a/orbax/future.py", logging.WARNING))
    assert printed == ["object", "thread"]
    assert complaints.take() == []
    assert (sys.unraisablehook, threading.excepthook, logger.filters) == before


def test_what_a_failed_save_says_late_is_not_printed(capsys):
    with Complaints() as complaints:
        logging.getLogger("absl").handle(record("/a/orbax/future.py"))
        assert len(complaints.take()) == 1
    late = record("base_events.py", text="Task exception was never retrieved /orbax/a.py: 1")
    assert not logging.getLogger("asyncio").filter(late)
    assert not logging.getLogger("absl").filter(record("/a/orbax/future.py"))
    closed = record("_base.py", text="exception calling callback: Event loop is closed")
    assert not logging.getLogger("concurrent.futures").filter(closed)
    unraisable(RuntimeError("Event loop is closed"))
    in_a_thread(fail_in_orbax)
    assert capsys.readouterr().err == ""
    assert logging.getLogger("asyncio").filter(record("base_events.py", text="another's task"))
    assert logging.getLogger("absl").filter(record("/a/mine.py"))


def test_the_log_alone_keeps_pages(tmp_path):
    shown = io.StringIO()
    console = Console(file=shown)
    sink = Fanout(
        [PlainTerminal(console, length=Length(1)), LogFile(tmp_path / "log.txt", length=Length(1))]
    )
    sink.detail("Traceback\n  File")
    sink.close()
    assert shown.getvalue() == ""
    assert [line[21:] for line in (tmp_path / "log.txt").read_text().splitlines()] == [
        "Traceback",
        "  File",
    ]
