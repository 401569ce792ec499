"""The interface of a game that the server serves."""

from abc import ABC, abstractmethod
from typing import ClassVar

from hackmatrix_rl.system.errors import ConfigError


class Served(ABC):
    """One game and its players. Its methods must not run concurrently.

    They raise a ConfigError for errors that a person can correct. Each method named in `requests`
    answers a request with JSON; its parameters are the fields of the request.
    """

    title: ClassVar[str]
    requests: ClassVar[tuple[str, ...]]

    @abstractmethod
    def load(self) -> None:
        """Loads the players before the server starts."""

    @abstractmethod
    def page(self) -> tuple[str, str]:
        """The page, and its Content-Security-Policy."""

    @abstractmethod
    def warm_up(self) -> None:
        """Starts the first game and compiles its first move."""

    @property
    @abstractmethod
    def moves(self) -> int:
        """Number of moves of the game."""

    def check_newest(self, number: int) -> None:
        """Raises a ConfigError unless `number` is the number of moves so far."""
        if number != self.moves:
            raise ConfigError(
                f"the game has moved on: it is at move {self.moves}, not {number}. Go to the "
                "latest position, then move"
            )
