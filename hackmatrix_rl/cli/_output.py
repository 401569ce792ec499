"""Standard output and error, which may be full, closed, or a pipe that nobody reads."""

import errno
import io
import os
import sys
from typing import Any, TextIO

STDOUT, STDERR = 1, 2


class OutputLostError(Exception):
    """Standard output cannot be written, and the command's result belongs there.

    It is not an OSError: libraries end the process at a closed pipe, or take the error for
    theirs.
    """


class _Stream(io.FileIO):
    """A standard stream that fails at most once; later writes are dropped.

    A failure is an error if the stream is `needed`. One that was `closed` when the process began
    leads nowhere.
    """

    def __init__(self, descriptor: int, *, needed: bool, closed: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.needed = needed
        self._never = OSError(errno.EBADF, os.strerror(errno.EBADF)) if closed else None
        self._lost = False

    def write(self, data: Any, /) -> int:
        """Writes, or drops the data after a failure."""
        if self._lost:
            return len(data)
        try:
            if self._never is not None:
                raise self._never
            return super().write(data)
        except OSError as error:
            self._lost = True
            why = f"standard output cannot be written: {error.strerror}"
            if self.needed:
                raise OutputLostError(why) from error
            if self.fileno() == STDOUT:
                print(f"{why}. The run goes on, and its folder tells the rest.", file=sys.stderr)
            return len(data)


def spare_output() -> None:
    """Makes failures of standard output stop nothing; standard error tells of the first one."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stream):
        raw.needed = False


def own_streams() -> bool:
    """Replaces the standard streams by ours; returns whether the process is this command's alone.

    Streams that a test or a notebook put there stay.
    """
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return False
    closed = _fill_gaps()
    sys.stdout = _text(_Stream(STDOUT, needed=True, closed=STDOUT in closed), sys.stdout)
    sys.stderr = _text(_Stream(STDERR, needed=False, closed=STDERR in closed), sys.stderr)
    return True


def _fill_gaps() -> list[int]:
    """Opens closed standard streams, to lead nowhere, and returns their descriptors.

    Otherwise the next file that is opened would get their number, and what libraries print.
    """
    closed = []
    for descriptor in (0, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: the lowest free number is its own
            closed.append(descriptor)
            os.open(os.devnull, os.O_RDWR)
    return closed


def _text(raw: _Stream, before: TextIO | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
