"""Standard streams that may be full, closed, unread or nonblocking."""

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
    """Standard output cannot be written, and the command's result is lost.

    It is not an OSError: libraries exit at a closed pipe, or handle the error as their own.
    """


class _Waiting(io.FileIO):
    """A stream that blocks even if its descriptor is nonblocking.

    A parent process may pass such a descriptor. A plain `FileIO` then writes a part of the data or
    nothing, and a read without data looks like the end of the file.
    """

    def readinto(self, buffer: Any, /) -> int:
        """Reads available data, and waits until there is some."""
        while (read := super().readinto(buffer)) is None:
            _wait(self, select.POLLIN)
        return read

    def write(self, data: Any, /) -> int:
        """Writes all of the data."""
        rest = memoryview(data).cast("B")
        while rest:
            # `FileIO.write` returns None if nothing could be written; its type omits that.
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
    """A standard stream that fails at most once; later writes are discarded.

    A failure raises an error only if the stream is `needed`. A stream that was `closed` when the
    process started fails at its first write.
    """

    def __init__(self, descriptor: int, *, needed: bool, closed: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.needed = needed
        self.began_closed = closed
        self._lost = False

    def write(self, data: Any, /) -> int:
        """Writes the data, or discards it after a failure."""
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
    """Lets the process survive failures of standard output; the first goes to standard error."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stream):
        raw.needed = False


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input, and standard output for answers only.

    Everything else that is printed goes to standard error. Failed writes raise `OutputLostError`.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    closed = isinstance(raw, _Stream) and raw.began_closed
    answers = cast(BinaryIO, _Stream(os.dup(STDOUT), needed=True, closed=closed))
    os.dup2(STDERR, STDOUT)
    if sys.stdin is None:  # closed
        return io.BytesIO(), answers
    return io.BufferedReader(_Waiting(sys.stdin.fileno(), closefd=False)), answers


def own_streams() -> bool:
    """Replaces the standard streams; returns whether the process runs only this command.

    Streams of a test or a notebook are not replaced.
    """
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return False
    closed = _fill_gaps()
    sys.stdout = _text(_Stream(STDOUT, needed=True, closed=STDOUT in closed), sys.stdout)
    sys.stderr = _text(_Stream(STDERR, needed=False, closed=STDERR in closed), sys.stderr)
    return True


def _fill_gaps() -> list[int]:
    """Opens closed standard streams as the null device; returns their descriptors.

    Otherwise the next opened file would get such a descriptor, and the output of libraries.
    """
    closed = []
    for descriptor in (0, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: `open` takes the lowest free descriptor, which is this one
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
