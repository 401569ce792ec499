"""The standard streams, which may be full, closed, unread, or not block."""

import errno
import io
import os
import select
import sys
from typing import Any, BinaryIO, TextIO, cast

STDOUT, STDERR = 1, 2
UNWRITTEN = 4
"""Exit status of a command that could not write its result to standard output."""


class OutputLostError(Exception):
    """Standard output cannot be written, and the command's result belongs there.

    It is not an OSError: libraries end the process at a closed pipe, or take the error for
    theirs.
    """


class _Waiting(io.FileIO):
    """A stream that reads and writes like any other where its descriptor does not block.

    Whoever starts a command may hand it such a descriptor. Of a plain `FileIO` a write then takes a
    part of the data or nothing, and a read without data looks like the end.
    """

    def readinto(self, buffer: Any, /) -> int:
        """Reads what there is, and waits for it."""
        while (read := super().readinto(buffer)) is None:
            _wait(self, select.POLLIN)
        return read

    def write(self, data: Any, /) -> int:
        """Writes all of the data."""
        rest = memoryview(data).cast("B")
        while rest:
            # The type of `FileIO` leaves out that it is None where nothing could be written.
            written: int | None = super().write(rest)
            if written is None:
                _wait(self, select.POLLOUT)
            else:
                rest = rest[written:]
        return len(data)


def _wait(stream: io.FileIO, event: int) -> None:
    waiting = select.poll()
    waiting.register(stream, event)
    waiting.poll()


class _Stream(_Waiting):
    """A standard stream that fails at most once; later writes are dropped.

    A failure is an error if the stream is `needed`. One that was `closed` when the process began
    leads nowhere.
    """

    def __init__(self, descriptor: int, *, needed: bool, closed: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.needed = needed
        self.began_closed = closed
        self._lost = False

    def write(self, data: Any, /) -> int:
        """Writes, or drops the data after a failure."""
        if self._lost:
            return len(data)
        try:
            if self.began_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return super().write(data)
        except OSError as error:
            self._lost = True
            why = f"standard output cannot be written: {error.strerror}"
            if self.needed:
                raise OutputLostError(why) from error
            if self.fileno() == STDOUT:
                print(f"{why}. The run continues; see its folder for the rest.", file=sys.stderr)
            return len(data)


def spare_output() -> None:
    """Lets a process outlive failures of standard output; the first goes to standard error."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stream):
        raw.needed = False


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input, and standard output for answers alone.

    What else is printed goes to standard error. Writing raises `OutputLostError`.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    closed = isinstance(raw, _Stream) and raw.began_closed
    answers = cast(BinaryIO, _Stream(os.dup(STDOUT), needed=True, closed=closed))
    os.dup2(STDERR, STDOUT)
    if sys.stdin is None:  # closed
        return io.BytesIO(), answers
    return io.BufferedReader(_Waiting(sys.stdin.fileno(), closefd=False)), answers


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
