"""The rules of the clique game: pure functions of the state of one game."""

from hackmatrix_rl.clique._play import Outcome, completes_clique, legal_actions, new_game, play
from hackmatrix_rl.clique._solution import Solution, solve
from hackmatrix_rl.clique._state import (
    FIRST,
    FULL_BOARDS,
    NOBODY,
    SECOND,
    CliqueConfig,
    FullBoard,
    State,
    colours,
    edge_numbers,
    edges,
    from_edges,
    mover,
)

__all__ = [
    "FIRST",
    "FULL_BOARDS",
    "NOBODY",
    "SECOND",
    "CliqueConfig",
    "FullBoard",
    "Outcome",
    "Solution",
    "State",
    "colours",
    "completes_clique",
    "edge_numbers",
    "edges",
    "from_edges",
    "legal_actions",
    "mover",
    "new_game",
    "play",
    "solve",
]
