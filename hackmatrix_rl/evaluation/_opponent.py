"""Who plays a game of two players against a person."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hackmatrix_rl.env import SingleGame
from hackmatrix_rl.evaluation._player import ThinkingAgent


@dataclass(frozen=True)
class Opponent:
    """A network that plays a game of two players who move in turn, with a search of any size.

    Attributes:
        game: the game; a move rewards the player who makes it.
        player: the player with a number of simulations before each move. With 0, the network
            plays its likeliest move.
        num_simulations: that number by default; a trained network has the number of its training.
    """

    game: SingleGame[Any]
    player: Callable[[int], ThinkingAgent]
    num_simulations: int
