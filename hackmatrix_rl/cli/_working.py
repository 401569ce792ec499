"""The progress of a command on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

FIRST_LINE, NEXT_LINES = 2.0, 10.0
"""Seconds until the first line, and between lines, if standard error is not a terminal."""


class Working:
    """A spinner with the current activity and its duration, and a bar if the total is known.

    On a terminal it is animated, and removed at the end. Elsewhere it prints a line from time to
    time; none for short work, or without `lines`.
    """

    def __init__(self, text: str, *, lines: bool = True) -> None:
        self._text = text
        self._lines = lines
        self._finished: int | None = None
        self._total: int | None = None
        self._shown: Progress | None = None

    def __enter__(self) -> "Working":
        self._began = time.monotonic()
        self._next = FIRST_LINE
        self._leave: Callable[[], Any] = lambda: None
        if sys.stderr.isatty():
            self._shown = _bar()
            self._task = self._shown.add_task(self._text, total=None)
            self._shown.start()
            self._leave = self._shown.stop
        elif self._lines:
            from hackmatrix_rl.system import ticking

            lines = ExitStack()
            lines.enter_context(ticking(self._line))
            self._leave = lines.close
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def doing(self, text: str) -> None:
        """Sets the current activity."""
        self._text, self._finished, self._total = text, None, None
        if self._shown is not None:
            self._shown.update(self._task, description=text, total=None)

    def progress(self, finished: int, total: int) -> None:
        """Sets the progress of the current activity."""
        self._finished, self._total = finished, total
        if self._shown is not None:
            self._shown.update(self._task, completed=finished, total=total)

    def hide(self) -> None:
        """Stops all output, because something else uses the terminal."""
        self._leave()
        self._leave, self._shown = lambda: None, None

    def say(self, line: str, show: Callable[[str], Any]) -> None:
        """Shows a permanent line, which is also the current activity."""
        if self._shown is not None:
            self._shown.stop()
        show(line)
        if self._shown is not None:
            self._shown.start()
        self._next = time.monotonic() - self._began + NEXT_LINES
        self.doing(line)

    def _line(self, seconds: float) -> None:
        if seconds < self._next:
            return
        self._next = seconds + NEXT_LINES
        far = "" if self._total is None else f": {self._finished:,} of {self._total:,}"
        from hackmatrix_rl.system.errors import printable  # imports JAX

        print(f"{printable(self._text)}{far} ({seconds:.0f} s)", file=sys.stderr, flush=True)


@contextmanager
def evaluating() -> Iterator[Callable[[int, int], None]]:
    """Shows an evaluation's compilation and then its progress; yields its `on_progress`."""
    from hackmatrix_rl.system import compiling

    def compiled(finished: int, episodes: int) -> None:
        if not finished:
            done()
            work.doing("playing")
        work.progress(finished, episodes)

    with Working("compiling") as work, compiling(work.doing) as done:
        yield compiled


def _bar() -> "Progress":
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
    )
