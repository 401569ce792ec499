"""What a place for metrics is to the rest of the package."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

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

    @abstractmethod
    def close(self) -> None:
        """Finishes what was begun; nothing is written afterwards."""


class Fanout(Sink):
    """Several sinks as one.

    Args:
        sinks: each gets everything, in this order.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)

    def write(self, row: Row) -> None:
        """Hands the row to each."""
        for sink in self._sinks:
            sink.write(row)

    def note(self, message: str) -> None:
        """Hands the line to each."""
        for sink in self._sinks:
            sink.note(message)

    def close(self) -> None:
        """Closes each, the last first."""
        for sink in reversed(self._sinks):
            sink.close()
