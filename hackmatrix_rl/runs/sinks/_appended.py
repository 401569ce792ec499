"""A growing file on a disk that may be full for a while."""

from pathlib import Path


class AppendedFile:
    """Appends at once. Data that the disk refuses waits in memory for the next call.

    Args:
        path: the file, made if it is missing, continued otherwise.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = b""
        path.open("ab").close()

    def append(self, data: bytes) -> None:
        """Appends.

        Raises:
            OSError: the data could not be written yet.
        """
        self._waiting += data
        # Opened each time, because a network disk may come back under another handle. Unbuffered:
        # this object keeps the data that could not be written.
        with self._path.open("ab", buffering=0) as file:
            while self._waiting:
                self._waiting = self._waiting[file.write(self._waiting) :]

    def flush(self) -> None:
        """Writes the waiting data, if any.

        Raises:
            OSError: something could not be written.
        """
        if self._waiting:
            self.append(b"")
