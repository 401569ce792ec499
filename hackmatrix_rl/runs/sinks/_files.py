"""The metrics and the log of a run as files."""

import json
import math
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.runs.sinks._terminal import Length, one_line
from hackmatrix_rl.system import open_in_place, open_regular, write_whole
from hackmatrix_rl.system.errors import printable, refusing


class AppendedFile:
    """A file with unbuffered appends. Data that the disk refuses waits for the next call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = b""
        self._open().close()

    def append(self, data: bytes) -> None:
        self._waiting += data
        # Opened each time, because a network disk may return under another handle. Unbuffered,
        # because this object keeps the data that could not be written.
        with self._open() as file:
            while self._waiting:
                self._waiting = self._waiting[file.write(self._waiting) :]

    def _open(self) -> IO[bytes]:
        return os.fdopen(open_in_place(self._path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0)

    def flush(self) -> None:
        if self._waiting:
            self.append(b"")

    def close(self) -> None:
        """Writes the waiting data, if any; the OSError says how much is lost."""
        try:
            self.flush()
        except OSError as error:
            lost = self._waiting.count(b"\n")
            said = f"{error.strerror}; {lost} lines that waited are lost"
            raise OSError(error.errno, said, str(self._path)) from error


class JsonLines(Sink):
    """Appends each row to a file immediately, so a killed run loses nothing.

    NaN and infinities become null, because JSON has no such numbers. Messages are dropped. Rows
    that a full disk refuses wait in memory for a later row.
    """

    def __init__(self, path: Path) -> None:
        self._file = AppendedFile(path)

    def write(self, row: Row) -> None:
        """Appends one line; raises an OSError if it could not be written yet."""
        numbers = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._file.append(json.dumps(numbers, allow_nan=False).encode() + b"\n")

    def note(self, message: str) -> None:
        """Drops the message, because the file has only numbers; writes waiting rows."""
        self._file.flush()

    def close(self) -> None:
        """Writes waiting rows; raises an OSError if they are lost."""
        self._file.close()


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of `JsonLines`, without damaged or truncated lines."""
    return rows_and_damage(path)[0]


def forget_rows_after(path: Path, update: int) -> list[str]:
    """Removes the rows of later updates, which a resumed run writes again, and damaged lines.

    Returns messages for the user.
    """
    if not path.exists():
        return [f"{path}: is missing; earlier rows are lost"] if update else []
    rows, damaged = rows_and_damage(path)
    dated = [row for row in rows if {"updates", "env_steps"} <= row.keys()]
    damaged += len(rows) - len(dated)
    kept = [row for row in dated if (row["updates"] or 0) <= update]
    notes = []
    if damaged:
        notes.append(f"{path}: held damaged lines ({damaged}), which are removed")
    elif update and not kept:
        notes.append(f"{path}: holds no row; those up to update {update:,} are lost")
    with refusing(f"{path}: cannot be written: ", of=OSError):
        write_whole(path, "".join(json.dumps(row) + "\n" for row in kept))
    return notes


def rows_and_damage(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The rows of a file of `JsonLines`, and the number of damaged lines."""
    with open_regular(path) as file:
        *lines, last = file.read().split(b"\n")
    rows = [_row(line) for line in lines]
    good = [row for row in rows if row is not None]
    # A row that a crash truncated does not count as damage.
    odd_end = bool(last) and not last.startswith(b"{")
    return good, len(rows) - len(good) + odd_end


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    numbers = (value is None or isinstance(value, int | float) for value in row.values())
    return row if all(numbers) else None


class LogFile(Sink):
    """Appends messages and one line for each row to a text file, with the time of day."""

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
        self.note(one_line(row, self._length))

    def note(self, message: str) -> None:
        """Appends the message; raises an OSError if it could not be written yet."""
        time = self._now().isoformat(sep=" ", timespec="seconds")
        lines = "".join(f"{time}  {printable(line)}\n" for line in message.splitlines())
        self._file.append(lines.encode())

    def detail(self, message: str) -> None:
        self.note(message)

    def close(self) -> None:
        """Writes waiting lines; raises an OSError if they are lost."""
        self._file.close()
