"""What a command shows on standard error while it works: nothing is silent for long."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

FIRST_LINE, NEXT_LINES = 2.0, 10.0
"""Seconds of silence before a line, where standard error is no terminal."""


class Working:
    """A spinner with what is being done and for how long, and a bar where the end is known.

    On a terminal it moves, and leaves nothing behind. Elsewhere there is a line now and then, and
    none for work that is quickly done, or without `lines`.
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
        """Says what is being done from now on."""
        self._text, self._finished, self._total = text, None, None
        if self._shown is not None:
            self._shown.update(self._task, description=text, total=None)

    def progress(self, finished: int, total: int) -> None:
        """Says how far it is."""
        self._finished, self._total = finished, total
        if self._shown is not None:
            self._shown.update(self._task, completed=finished, total=total)

    def hide(self) -> None:
        """Shows nothing from now on: something else uses the terminal."""
        self._leave()
        self._leave, self._shown = lambda: None, None

    def say(self, line: str, show: Callable[[str], Any]) -> None:
        """Shows a line that stays, which is also what is being done from now on."""
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
        from hackmatrix_rl.system.errors import printable  # it imports JAX

        print(f"{printable(self._text)}{far} ({seconds:.0f} s)", file=sys.stderr, flush=True)


@contextmanager
def evaluating() -> Iterator[Callable[[int, int], None]]:
    """Shows how an evaluation goes, by its `on_progress`: that it compiles, then a bar."""
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
