"""Displays of a run that keep what they are told, and stop it."""

import dataclasses
import signal
from collections.abc import Callable
from typing import Any

from hackmatrix_rl.runs import make_run_folder, run
from hackmatrix_rl.runs.checkpoints import find_checkpoint
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system import ExitCode


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


def stopped_and_resumed(config, make_trainer, folder):
    """A run that a signal stops at update 2 and that another trainer goes on with.

    The trainer that went on, the folder of the run, and what was noted of its second part.
    """
    stopped, resumed = make_trainer(), make_trainer()
    made = make_run_folder(dataclasses.replace(config, run_dir=str(folder)))
    ended = run(config, stopped, made, displays=[Notes(interrupt_at(2))])
    assert ended.exit_code == 128 + signal.SIGINT
    assert int(stopped.state.update) == 2
    display = Notes()
    again = run(config, resumed, made, resume=find_checkpoint(made.path), displays=[display])
    assert again.exit_code is ExitCode.DONE
    return resumed, made, display.notes
