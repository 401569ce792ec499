"""What all memory tasks have in common."""

from abc import abstractmethod
from typing import TypeVar

import numpy as np

from hackmatrix_rl.env import SingleGame

GameState = TypeVar("GameState")


class MemoryTask(SingleGame[GameState]):
    """A game of one trial that needs memory, with known returns.

    An episode is one trial. All returns are undiscounted.
    """

    def render(self, state: GameState) -> str:
        """What the player sees now: a bar for each number."""
        seen = np.asarray(self.observe(state)).tolist()
        return "\n".join(f"{x:6.2f} {'#' * round(10 * max(0, x)):30.30}" for x in seen)

    @property
    @abstractmethod
    def best_return(self) -> float:
        """The best mean return of any policy; exact."""

    @property
    @abstractmethod
    def memoryless_return(self) -> float:
        """The best mean return of a memoryless policy; exact."""
