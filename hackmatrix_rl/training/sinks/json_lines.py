"""Metrics as a file with one JSON object a line."""

import json
import math
from pathlib import Path
from typing import Any

from hackmatrix_rl.training.sinks.sink import Row, Sink


class JsonLines(Sink):
    """Appends each row to a file and flushes it, so that a killed run loses nothing.

    NaN and infinities, which JSON does not have, are written as null. Messages are not kept.

    Args:
        path: the file; made if it is missing, continued if it is there.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: Row) -> None:
        """Appends one line."""
        numbers = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._file.write(json.dumps(numbers, allow_nan=False) + "\n")
        self._file.flush()

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
