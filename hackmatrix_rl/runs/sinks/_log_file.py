"""A run's log: rows and messages with the time of day."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from hackmatrix_rl.errors import printable
from hackmatrix_rl.runs.sinks._appended import AppendedFile
from hackmatrix_rl.runs.sinks._columns import Length, one_line
from hackmatrix_rl.runs.sinks._sink import Row, Sink


class LogFile(Sink):
    """Appends messages and one line for each row to a text file.

    Args:
        path: the file, continued if it exists.
        length: of the run, for the progress; `None`: unknown.
        now: the time; tests pass their own.
    """

    def __init__(
        self,
        path: Path,
        *,
        length: Length | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._file = AppendedFile(path)
        self._length = length
        self._now = now

    def write(self, row: Row) -> None:
        """Appends the row as a line."""
        self.note(one_line(row, self._length))

    def note(self, message: str) -> None:
        """Appends the message.

        Raises:
            OSError: the message could not be written yet.
        """
        time = self._now().isoformat(sep=" ", timespec="seconds")
        lines = "".join(f"{time}  {printable(line)}\n" for line in message.splitlines())
        self._file.append(lines.encode())

    def detail(self, message: str) -> None:
        """Appends the message."""
        self.note(message)

    def close(self) -> None:
        """Writes the lines that wait.

        Raises:
            OSError: some lines could not be written.
        """
        self._file.flush()
