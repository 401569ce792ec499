"""Self-play: a network and a search improve each other in games of two players."""

from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._league import (
    JudgedMatch,
    Mistakes,
    Standings,
    judged_match,
    league,
    mistakes,
    ratings,
)
from hackmatrix_rl.algorithms.self_play._learning import SearchLoss
from hackmatrix_rl.algorithms.self_play._load import LoadedSelfPlay, load_self_play
from hackmatrix_rl.algorithms.self_play._match import (
    BoardPlayer,
    MatchResult,
    PerfectPlayer,
    RandomPlayer,
    SearchPlayer,
    match,
)
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.algorithms.self_play._self_play import SelfPlay
from hackmatrix_rl.env import VertexPermutations

__all__ = [
    "BoardPlayer",
    "JudgedMatch",
    "LoadedSelfPlay",
    "MatchResult",
    "Mistakes",
    "PerfectPlayer",
    "RandomPlayer",
    "Search",
    "SearchLoss",
    "SearchPlayer",
    "SelfPlay",
    "SelfPlayConfig",
    "Standings",
    "VertexPermutations",
    "judged_match",
    "league",
    "load_self_play",
    "match",
    "mistakes",
    "ratings",
]
