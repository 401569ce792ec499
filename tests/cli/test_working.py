"""What people see while a command works."""

import io
import sys

from hackmatrix_rl.cli import _working as module
from hackmatrix_rl.cli._working import Working


class Terminal(io.StringIO):
    def isatty(self):
        return True


def standard_error(monkeypatch, stream):
    """Within the test: pytest sets the standard streams anew when it begins."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def test_a_terminal_shows_what_is_done_and_how_far_it_is(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    with Working("loading") as work:
        work.doing("playing")
        work.progress(250, 1000)
    text = terminal.getvalue()
    assert "playing" in text
    assert "25%" in text


def test_a_line_on_a_terminal_stays_and_quick_work_says_nothing_elsewhere(monkeypatch):
    standard_error(monkeypatch, Terminal())
    lines = []
    with Working("loading") as work:
        work.say("compiling a", lines.append)
    assert lines == ["compiling a"]
    plain = standard_error(monkeypatch, io.StringIO())
    with Working("loading") as work:
        work.progress(1, 2)
    assert plain.getvalue() == ""


def test_long_work_says_a_line_now_and_then(monkeypatch):
    plain = standard_error(monkeypatch, io.StringIO())
    work = Working("loading")
    work._next = module.FIRST_LINE
    for second in range(1, 15):
        if second == 5:
            work.doing("playing")
            work.progress(3, 1000)
        work._line(float(second))
    assert plain.getvalue().splitlines() == ["loading (2 s)", "playing: 3 of 1,000 (12 s)"]
