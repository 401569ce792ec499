"""What a place for metrics is to the rest of the package."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

# One log interval: numbers by name. A number that is not known yet is NaN.
Row = Mapping[str, float]


class Sink(ABC):
    """Takes a run's metrics, one row for each log interval, and its messages."""

    @abstractmethod
    def write(self, row: Row) -> None:
        """Takes the metrics of one log interval."""

    @abstractmethod
    def note(self, message: str) -> None:
        """Takes one line for people to read."""

    def detail(self, message: str) -> None:
        """Takes pages, which only the log keeps."""
        return

    @abstractmethod
    def close(self) -> None:
        """Finishes what was begun; nothing is written afterwards."""


class Fanout(Sink):
    """Several sinks as one.

    One that cannot write to its disk holds up neither the others nor the training: the others
    are told when that begins and ends.

    Args:
        sinks: each gets everything, in this order.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)  # those that are not closed
        self._failing: list[Sink] = []

    @property
    def failing(self) -> bool:
        """Whether some sink could not take what it was handed last."""
        return bool(self._failing)

    def write(self, row: Row) -> None:
        """Hands the row to each."""
        for sink in self._sinks:
            self._attempt(sink, partial(sink.write, row))

    def note(self, message: str) -> None:
        """Hands the line to each."""
        for sink in self._sinks:
            self._attempt(sink, partial(sink.note, message))

    def detail(self, message: str) -> None:
        """Hands the pages to each."""
        for sink in self._sinks:
            self._attempt(sink, partial(sink.detail, message))

    def close(self) -> None:
        """Closes each, the last first."""
        while self._sinks:
            sink = self._sinks.pop()
            self._attempt(sink, sink.close)

    def _attempt(self, sink: Sink, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            if sink not in self._failing:
                self._failing.append(sink)
                self._tell_others(sink, f"cannot write: {error}. Training goes on.")
        else:
            if sink in self._failing:
                self._failing.remove(sink)
                self._tell_others(sink, "can be written again.")

    def _tell_others(self, sink: Sink, message: str) -> None:
        for other in self._sinks:
            if other is not sink and other not in self._failing:
                self._attempt(other, partial(other.note, f"{type(sink).__name__} {message}"))
