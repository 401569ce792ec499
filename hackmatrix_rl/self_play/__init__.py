"""Self-play: a network and a search improve each other in games of two players."""

from hackmatrix_rl.self_play._buffer import (
    Buffer,
    Drawn,
    Outcomes,
    outcomes_of,
)
from hackmatrix_rl.self_play._games import (
    Games,
    Moves,
    Results,
    play_moves,
)
from hackmatrix_rl.self_play._loss import (
    SearchLoss,
)
from hackmatrix_rl.self_play._search import (
    Found,
    Search,
    judge,
)
from hackmatrix_rl.self_play._self_play import (
    SelfPlay,
    SelfPlayState,
)
from hackmatrix_rl.self_play._symmetry import (
    Symmetry,
    VertexPermutations,
)

__all__ = [
    "Buffer",
    "Drawn",
    "Found",
    "Games",
    "Moves",
    "Outcomes",
    "Results",
    "Search",
    "SearchLoss",
    "SelfPlay",
    "SelfPlayState",
    "Symmetry",
    "VertexPermutations",
    "judge",
    "outcomes_of",
    "play_moves",
]
