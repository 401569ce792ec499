"""Self-play: a network and a search improve each other in games of two players."""

from hackmatrix_rl.algorithms.self_play._buffer import Buffer, Outcomes, Sample, outcomes_of
from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._elo import ratings
from hackmatrix_rl.algorithms.self_play._games import Games, Moves, Results, begin, play_moves
from hackmatrix_rl.algorithms.self_play._league import Standings, league
from hackmatrix_rl.algorithms.self_play._learning import LearnFromBuffer
from hackmatrix_rl.algorithms.self_play._load import LoadedSelfPlay, load_self_play
from hackmatrix_rl.algorithms.self_play._loss import Losses, SearchLoss
from hackmatrix_rl.algorithms.self_play._match import (
    NO_MOVE,
    MatchResult,
    Record,
    match,
    play_games,
)
from hackmatrix_rl.algorithms.self_play._mistakes import (
    JudgedMatch,
    Mistakes,
    judged_match,
    mistakes,
)
from hackmatrix_rl.algorithms.self_play._players import (
    BoardPlayer,
    PerfectPlayer,
    RandomPlayer,
    SearchPlayer,
)
from hackmatrix_rl.algorithms.self_play._search import Found, Search
from hackmatrix_rl.algorithms.self_play._self_play import SelfPlay
from hackmatrix_rl.algorithms.self_play._show import show_game
from hackmatrix_rl.algorithms.self_play._sizes import Sizes
from hackmatrix_rl.algorithms.self_play._state import GamesAndMoves, SelfPlayState
from hackmatrix_rl.env import Symmetry, VertexPermutations

__all__ = [
    "NO_MOVE",
    "BoardPlayer",
    "Buffer",
    "Found",
    "Games",
    "GamesAndMoves",
    "JudgedMatch",
    "LearnFromBuffer",
    "LoadedSelfPlay",
    "Losses",
    "MatchResult",
    "Mistakes",
    "Moves",
    "Outcomes",
    "PerfectPlayer",
    "RandomPlayer",
    "Record",
    "Results",
    "Sample",
    "Search",
    "SearchLoss",
    "SearchPlayer",
    "SelfPlay",
    "SelfPlayConfig",
    "SelfPlayState",
    "Sizes",
    "Standings",
    "Symmetry",
    "VertexPermutations",
    "begin",
    "judged_match",
    "league",
    "load_self_play",
    "match",
    "mistakes",
    "outcomes_of",
    "play_games",
    "play_moves",
    "ratings",
    "show_game",
]
