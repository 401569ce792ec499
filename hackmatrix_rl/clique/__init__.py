"""The rules of the clique game: pure functions of the state of one game."""

from hackmatrix_rl.clique._game import (
    FIRST,
    FULL_BOARDS,
    NOBODY,
    SECOND,
    CliqueConfig,
    FullBoard,
    Outcome,
    State,
    colours,
    completes_clique,
    edge_numbers,
    edges,
    from_edges,
    legal_actions,
    mover,
    new_game,
    play,
)
from hackmatrix_rl.clique._solution import Solution, solve

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
