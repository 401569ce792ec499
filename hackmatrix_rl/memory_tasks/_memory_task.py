"""What all memory tasks have in common."""

from abc import abstractmethod
from typing import TypeVar

from hackmatrix_rl.env import SingleGame

GameState = TypeVar("GameState")


class MemoryTask(SingleGame[GameState]):
    """A game of one trial that needs memory, with known returns.

    An episode is one trial. All returns are undiscounted.
    """

    @property
    @abstractmethod
    def best_return(self) -> float:
        """The best mean return of any policy; exact."""

    @property
    @abstractmethod
    def memoryless_return(self) -> float:
        """The best mean return of a memoryless policy; exact."""
