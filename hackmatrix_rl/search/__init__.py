"""Players that try moves out: one move ahead, and by games that they imagine."""

from hackmatrix_rl.search._evaluation import evaluate, win_probability, win_terms
from hackmatrix_rl.search._expert import Expert
from hackmatrix_rl.search._game_model import (
    GameModel,
    HackMatrixModel,
    ImaginedStep,
    SingleGameModel,
)
from hackmatrix_rl.search._guide import ExpertGuide, Guide, NetworkGuide
from hackmatrix_rl.search._harvester import Harvester
from hackmatrix_rl.search._rollout_search import LEAST_ROLLOUTS, RolloutSearch
from hackmatrix_rl.search._searcher import Searcher
from hackmatrix_rl.search._tree_search import (
    Grown,
    Improvement,
    Prior,
    Roots,
    SearchResult,
    Trees,
    TreeSearch,
    gumbel_noise,
)
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights

__all__ = [
    "LEAST_ROLLOUTS",
    "EvaluationWeights",
    "Expert",
    "ExpertGuide",
    "GameModel",
    "Grown",
    "Guide",
    "HackMatrixModel",
    "Harvester",
    "ImaginedStep",
    "Improvement",
    "NetworkGuide",
    "Prior",
    "RolloutSearch",
    "Roots",
    "SearchResult",
    "Searcher",
    "SingleGameModel",
    "TreeSearch",
    "Trees",
    "WinWeights",
    "draw_unseen",
    "evaluate",
    "gumbel_noise",
    "win_probability",
    "win_terms",
]
