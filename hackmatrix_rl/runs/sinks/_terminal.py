"""A run's progress: a live display on a terminal, plain lines elsewhere."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from hackmatrix_rl.errors import printable
from hackmatrix_rl.runs.sinks._columns import Length, one_line, shown
from hackmatrix_rl.runs.sinks._sink import Row, Sink

PLAIN_SECONDS = 10
"""Seconds between lines about work that lasts, where the output is no terminal."""


def terminal(console: Console, *, length: Length) -> Sink:
    """The display that suits the output."""
    kind = LiveTerminal if console.is_terminal else PlainTerminal
    return kind(console, length=length)


class PlainTerminal(Sink):
    """One line for each row: for files, pipes and build logs."""

    def __init__(self, console: Console, *, length: Length) -> None:
        self._console = console
        self._length = length
        self._next: float = PLAIN_SECONDS

    def write(self, row: Row) -> None:
        """Prints the row."""
        self.note(one_line(row, self._length))

    def note(self, message: str) -> None:
        """Prints the message."""
        _print(self._console, message)

    def working(self, text: str, seconds: float) -> None:
        """Prints a line every ten seconds."""
        if seconds < self._next - PLAIN_SECONDS:
            self._next = PLAIN_SECONDS  # other work
        if seconds >= self._next:
            self._next = seconds + PLAIN_SECONDS
            self.note(f"{text} ... ({seconds:.0f} s)")

    def close(self) -> None:
        """Does nothing."""


class LiveTerminal(Sink):
    """A progress bar with the time left, and the newest row below it.

    It appears with the first row or message.
    """

    def __init__(self, console: Console, *, length: Length) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[steps]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task = self._progress.add_task(
            "training", total=length.goal, steps="compiling ...", left=""
        )
        self._length = length
        self._live = Live(self._progress, console=console, refresh_per_second=4)

    def write(self, row: Row) -> None:
        """Moves the bar and shows the row."""
        self._live.start()
        self._progress.update(
            self._task,
            completed=round(self._length.done(row) * self._length.goal),
            steps=self._length.reached(row),
            left=self._length.left(row),
        )
        table = Table(expand=True, box=None, pad_edge=False)
        columns = shown(row)
        for label, _ in columns:
            table.add_column(label, justify="right", style="bold", header_style="dim")
        table.add_row(*(text for _, text in columns))
        self._live.update(Group(self._progress, table))

    def note(self, message: str) -> None:
        """Prints the message above the display."""
        self._live.start()
        _print(self._console, message)

    def working(self, text: str, seconds: float) -> None:
        """Shows it beside the bar."""
        self._progress.update(self._task, steps=f"{text} ... ({seconds:.0f} s)")

    def close(self) -> None:
        """Stops the display; its last state stays."""
        self._live.stop()


def _print(console: Console, message: str) -> None:
    """Prints a message, which may repeat what a file holds, line by line."""
    for line in message.splitlines():
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
