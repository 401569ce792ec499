"""Standard output and error that may be full, closed, or read by nobody."""

import errno
import io
import os
import sys
from typing import Any, TextIO

STDOUT, STDERR = 1, 2


class OutputLostError(Exception):
    """Standard output cannot be written, and what it was to show is the command's result.

    No OSError: libraries end the process at a closed pipe, or take it for an error of theirs.
    """


class _Stream(io.FileIO):
    """A standard stream that fails once at the most; what comes after that is dropped.

    Args:
        descriptor: of the stream.
        needed: whether a failure is an error.
        closed: whether it was closed when the process began: then the descriptor leads nowhere.
    """

    def __init__(self, descriptor: int, *, needed: bool, closed: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.needed = needed
        self._never = OSError(errno.EBADF, os.strerror(errno.EBADF)) if closed else None
        self._lost = False

    def write(self, data: Any, /) -> int:
        """Writes, or does as if it had."""
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
    """From here on a failure of standard output stops nothing; standard error tells of it once."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stream):
        raw.needed = False


def own_streams() -> bool:
    """Puts streams of ours in the place of the process's own, for as long as it lives.

    Where somebody else has put theirs (a test, a notebook), they stay.

    Returns:
        Whether they were put there: the process is this command's alone.
    """
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return False
    closed = _fill_gaps()
    sys.stdout = _text(_Stream(STDOUT, needed=True, closed=STDOUT in closed), sys.stdout)
    sys.stderr = _text(_Stream(STDERR, needed=False, closed=STDERR in closed), sys.stderr)
    return True


def _fill_gaps() -> list[int]:
    """Standard streams that were closed; they lead nowhere now.

    The next file that is opened would get their place, and whatever a library prints.
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
