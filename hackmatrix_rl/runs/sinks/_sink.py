"""The interface of sinks."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# One log interval: numbers by name. An unknown number is NaN.
Row = Mapping[str, float]


class Sink:
    """Takes a run's metrics, one row for each log interval, and its messages.

    A method that a sink does not override does nothing.
    """

    def write(self, row: Row) -> None:
        """Takes the metrics of one log interval."""

    def note(self, message: str) -> None:
        """Takes one line for people to read."""

    def detail(self, message: str) -> None:
        """Takes a long message, which only the log keeps."""

    def working(self, text: str, seconds: float) -> None:
        """Called about every second, from another thread, with the current work and its time."""

    def show(self, page: Path) -> None:
        """Takes a written HTML page, to show it with the metrics."""

    def film(self, draw: Callable[[], Path]) -> None:
        """Takes a function that writes a GIF of a game in some seconds, to show the GIF."""

    def keep(self, checkpoint: Path) -> None:
        """Takes the folder of a written checkpoint, to copy it elsewhere."""

    def close(self) -> None:
        """Finishes. Nothing is written afterwards."""


class Fanout(Sink):
    """Several sinks as one, called in order.

    A sink that cannot write to its disk does not stop the others or the training. The others
    get a message when it fails and when it recovers.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)  # the open sinks
        self._failing: list[Sink] = []

    @property
    def failing(self) -> bool:
        """Whether some sink could not write the last row or message."""
        return bool(self._failing)

    def write(self, row: Row) -> None:
        self._each(lambda sink: sink.write(row))

    def note(self, message: str) -> None:
        self._each(lambda sink: sink.note(message))

    def detail(self, message: str) -> None:
        self._each(lambda sink: sink.detail(message))

    def working(self, text: str, seconds: float) -> None:
        self._each(lambda sink: sink.working(text, seconds))

    def show(self, page: Path) -> None:
        self._each(lambda sink: sink.show(page))

    def film(self, draw: Callable[[], Path]) -> None:
        self._each(lambda sink: sink.film(draw))

    def keep(self, checkpoint: Path) -> None:
        self._each(lambda sink: sink.keep(checkpoint))

    def close(self) -> None:
        """Closes each sink, the last one first; the remaining ones get its error."""
        while self._sinks:
            sink = self._sinks.pop()
            self._attempt(sink, lambda sink: sink.close(), last=True)

    def _each(self, act: Callable[[Sink], None]) -> None:
        for sink in self._sinks:
            self._attempt(sink, act)

    def _attempt(self, sink: Sink, act: Callable[[Sink], None], *, last: bool = False) -> None:
        try:
            act(sink)
        except OSError as error:
            if last or sink not in self._failing:
                self._failing.append(sink)
                then = "" if last else " Training continues."
                self._note_others(sink, f"cannot write: {error}.{then}")
        else:
            if sink in self._failing:
                self._failing.remove(sink)
                self._note_others(sink, "can be written again.")

    def _note_others(self, sink: Sink, message: str) -> None:
        for other in self._sinks:
            if other is not sink and other not in self._failing:
                self._attempt(other, lambda each: each.note(f"{type(sink).__name__} {message}"))
