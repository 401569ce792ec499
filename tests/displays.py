"""Displays of a run that keep what they are told."""

import signal
from collections.abc import Callable
from typing import Any

from hackmatrix_rl.runs.sinks import Sink


def interrupt_at(update: int) -> Callable[[Any], None]:
    """Presses Ctrl-C when the metrics of an update arrive."""

    def press(row: Any) -> None:
        if row["updates"] == update:
            signal.raise_signal(signal.SIGINT)

    return press


class Notes(Sink):
    """Keeps all notes, and hands each row to a function."""

    def __init__(self, on_row: Callable[[Any], None] = lambda row: None) -> None:
        self.notes: list[str] = []
        self.on_row = on_row

    def write(self, row: Any) -> None:
        self.on_row(row)

    def note(self, message: str) -> None:
        self.notes.append(message)

    def close(self) -> None:
        pass
