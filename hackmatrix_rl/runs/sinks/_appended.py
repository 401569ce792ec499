"""A growing file that is made again if it is removed."""

import errno
import os
from pathlib import Path

from hackmatrix_rl.system import set_aside

_CHUNK = 1 << 20


class Place:
    """The folder of a growing file; this base class does nothing."""

    def check(self) -> None:
        """Makes the folder again if needed, before anything is written.

        Raises:
            OSError: the folder is missing and cannot be made again.
        """

    def made_again(self, what: str) -> None:
        """Takes the name of a file that was removed and made again, with any loss."""


class AppendedFile:
    """Appends at once. Data that the disk refuses waits in memory for the next call.

    A process that has a file open can still read it after its removal: this copies the content
    to the same place again.

    Args:
        path: the file, made if it is missing, continued otherwise.
        place: keeps the folder in place.
    """

    def __init__(self, path: Path, place: Place | None = None) -> None:
        self._path = path
        self._place = Place() if place is None else place
        # Unbuffered: this object keeps the data that could not be written.
        self._file = path.open("a+b", buffering=0)
        self._waiting = b""

    def append(self, data: bytes) -> None:
        """Appends.

        Raises:
            OSError: the data could not be written yet.
        """
        self._waiting += data
        self._place.check()
        if not self._there():
            self._make_again()
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]

    def close(self) -> None:
        """Writes the waiting data and closes the file.

        Raises:
            OSError: something could not be written.
        """
        try:
            self.append(b"")
        finally:
            self._file.close()

    def _there(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                return False
            raise

    def _make_again(self) -> None:
        unfinished = self._path.with_name(self._path.name + ".part")
        with unfinished.open("w+b", buffering=0):
            pass  # removes the content of an earlier attempt
        again = unfinished.open("a+b", buffering=0)
        lost = ""
        try:
            try:
                self._copy_to(again.fileno())
            except _UnreadableError as error:
                lost = f" (without its earlier content: {error})"
            if os.path.lexists(self._path):
                set_aside(self._path)  # another file, which does not belong to this run
            unfinished.replace(self._path)
        except OSError:
            again.close()
            raise
        self._file.close()
        self._file = again
        self._place.made_again(self._path.name + lost)

    def _copy_to(self, target: int) -> None:
        source, at = self._file.fileno(), 0
        while True:
            try:
                chunk = os.pread(source, _CHUNK, at)
            except OSError as error:
                raise _UnreadableError(error.strerror or str(error)) from error
            if not chunk:
                return
            at += len(chunk)
            while chunk:
                chunk = chunk[os.write(target, chunk) :]


class _UnreadableError(Exception):
    """The content of a removed file is lost."""
