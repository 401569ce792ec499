"""Metrics as a file with one JSON object a line."""

import json
import math
from pathlib import Path
from typing import Any

from hackmatrix_rl.training.sinks.sink import Row, Sink


class JsonLines(Sink):
    """Appends each row to a file at once, so that a killed run loses nothing.

    NaN and infinities, which JSON does not have, are written as null. Messages are not kept.
    What a full disk does not take is kept in memory and written with a later row.

    Args:
        path: the file; made if it is missing, continued if it is there.
    """

    def __init__(self, path: Path) -> None:
        # Unbuffered: what could not be written is ours to keep.
        self._file = path.open("ab", buffering=0)
        self._waiting = b""

    def write(self, row: Row) -> None:
        """Appends one line.

        Raises:
            OSError: it could not be written yet.
        """
        numbers = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._waiting += json.dumps(numbers, allow_nan=False).encode() + b"\n"
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]

    def note(self, message: str) -> None:
        """Keeps nothing: the file holds numbers alone."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that `JsonLines` wrote. A last line cut short by a crash is left out."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def forget_rows_after(path: Path, update: int) -> None:
    """Takes the rows of later updates out of a file: a run that goes on will write them anew.

    Args:
        path: a file that `JsonLines` wrote; it may be missing.
        update: the last one whose row stays.
    """
    if not path.exists():
        return
    rows = [row for row in read_json_lines(path) if row["updates"] <= update]
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    unfinished.replace(path)
