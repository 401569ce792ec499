"""What the server serves: a game, and the requests that its page makes."""

from abc import ABC, abstractmethod
from typing import ClassVar

from hackmatrix_rl.system.errors import ConfigError


class Served(ABC):
    """One game, and who sits at it. Its methods must not run at the same time.

    They raise a ConfigError for what a person can put right. Each method that `requests` names
    answers a request with JSON. Its parameters are the fields of the request.
    """

    title: ClassVar[str]
    requests: ClassVar[tuple[str, ...]]

    @abstractmethod
    def load(self) -> None:
        """Finds what the start needs, before anything is served."""

    @abstractmethod
    def page(self) -> tuple[str, str]:
        """The page, and its Content-Security-Policy."""

    @abstractmethod
    def warm_up(self) -> None:
        """Starts the first game, and compiles what its first move needs."""

    @property
    @abstractmethod
    def moves(self) -> int:
        """Number of moves of the game."""

    def check_newest(self, number: int) -> None:
        """Refuses a request that was made at another position than the newest."""
        if number != self.moves:
            raise ConfigError(
                f"the game has moved on: it is at move {self.moves}, not {number}. Look at the "
                "newest position, then move"
            )
