"""A run's progress: a live display on a terminal, plain lines elsewhere."""

import math
from dataclasses import dataclass

from rich import progress
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system.errors import printable

# Label, name in the row, format.
COLUMNS = (
    ("steps/s", "steps_per_second", ",.0f"),
    ("return", "return", "+.3f"),
    ("length", "length", ".1f"),
    ("stage", "stage", ".2f"),
    ("first wins", "first_wins", ".0%"),
    ("draws", "draws", ".0%"),
    ("entropy", "entropy", ".3f"),
    ("KL", "approx_kl", ".4f"),
    ("policy loss", "policy_loss", ".4f"),
    ("value loss", "value_loss", ".4f"),
    ("Q loss", "q_loss", ".4f"),
    ("gradient steps", "gradient_steps", ",.0f"),
)
_LATE = "gradient_steps"
"""Shown only with a Q loss, where learning starts late, after the buffer is filled."""


def shown(row: Row) -> list[tuple[str, str]]:
    """The label and the text of each column in the row; a dash if it is not finite."""
    return [
        (label, format(row[name], form) if math.isfinite(row[name]) else "-")
        for label, name, form in COLUMNS
        if name in row and (name != _LATE or "q_loss" in row)
    ]


@dataclass(frozen=True)
class Length:
    """The length of a run: its goal, and the name of the metric that counts towards it.

    Each of the `members` trainings in one program has this goal. The metric `steps_per_second` is
    their sum; the others are per training.
    """

    goal: int
    counts: str = "env_steps"
    members: int = 1

    @classmethod
    def from_config(cls, config: RunConfig) -> "Length":
        """The length of a run with these settings, to the end of its last stage."""
        return cls(config.last_goal, config.counts, config.members)

    def done(self, row: Row) -> float:
        """The fraction that is done, at most 1."""
        return min(1.0, row[self.counts] / self.goal)

    def reached(self, row: Row) -> str:
        """The progress in words: `12,800 steps`."""
        return f"{row[self.counts]:,.0f} {_UNITS.get(self.counts, self.counts)}"

    def left(self, row: Row) -> str:
        """`2:03 left`, at the speed of the row; empty if that is unknown."""
        if not (row["steps_per_second"] > 0 and row["env_steps"] > 0):
            return ""
        # Assumes the same number of steps per unit as so far.
        speed = row["steps_per_second"] / self.members * row[self.counts] / row["env_steps"]
        if not speed > 0:
            return ""
        return f"{duration((self.goal - row[self.counts]) / speed)} left"


_UNITS = {"env_steps": "steps"}


def one_line(row: Row, length: Length | None) -> str:
    """The row as a line: progress, then the columns."""
    if length is None:
        parts = [Length(1).reached(row)]
    else:
        left = length.left(row) or "? left"
        parts = [f"{length.done(row):4.0%}", length.reached(row), left]
    return "  ".join([*parts, *(f"{label} {text}" for label, text in shown(row))])


def duration(seconds: float) -> str:
    """`1:02:03` or `2:03`; at least `0:00`."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


PLAIN_SECONDS = 10
"""Seconds between lines about long work if the output is not a terminal."""


def terminal(console: Console, *, length: Length) -> Sink:
    """A live display on a terminal, plain lines elsewhere."""
    kind = LiveTerminal if console.is_terminal else PlainTerminal
    return kind(console, length=length)


class PlainTerminal(Sink):
    """One line for each row: for files, pipes and build logs."""

    def __init__(self, console: Console, *, length: Length) -> None:
        self._console = console
        self._length = length
        self._next: float = PLAIN_SECONDS

    def write(self, row: Row) -> None:
        self.note(one_line(row, self._length))

    def note(self, message: str) -> None:
        _print(self._console, message)

    def working(self, text: str, seconds: float) -> None:
        """Prints a line every ten seconds."""
        if seconds < self._next - PLAIN_SECONDS:
            self._next = PLAIN_SECONDS  # new work has begun
        if seconds >= self._next:
            self._next = seconds + PLAIN_SECONDS
            self.note(f"{text} ... ({seconds:.0f} s)")


class LiveTerminal(Sink):
    """A progress bar with the time left, and the newest row below it.

    It appears with the first row or message.
    """

    def __init__(self, console: Console, *, length: Length) -> None:
        self._console = console
        self._progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.BarColumn(bar_width=None),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[steps]}"),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
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
        """Shows the text next to the progress bar."""
        self._progress.update(self._task, steps=f"{text} ... ({seconds:.0f} s)")

    def close(self) -> None:
        """Stops the display; its last state stays."""
        self._live.stop()


def _print(console: Console, message: str) -> None:
    """Prints a message, which may quote an untrusted file, line by line."""
    for line in message.splitlines():
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
