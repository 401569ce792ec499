"""Players that try moves out: one move ahead, and by games that they imagine."""

from hackmatrix_rl.search._evaluation import evaluate, evaluate_next_stage, evaluate_result
from hackmatrix_rl.search._expert import Expert
from hackmatrix_rl.search._game_model import GameModel, ImaginedStep, SingleGameModel
from hackmatrix_rl.search._guide import ExpertGuide, Guide
from hackmatrix_rl.search._hackmatrix_model import HackMatrixModel
from hackmatrix_rl.search._improvement import Improvement
from hackmatrix_rl.search._network_guide import NetworkGuide
from hackmatrix_rl.search._rollout_search import LEAST_ROLLOUTS, RolloutSearch
from hackmatrix_rl.search._searcher import SIMULATIONS, Searcher
from hackmatrix_rl.search._tree_search import SearchResult, TreeSearch
from hackmatrix_rl.search._trees import Grown, Prior, Roots, Trees, gumbel_noise
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights
from hackmatrix_rl.search._win_probability import win_probability, win_terms

__all__ = [
    "LEAST_ROLLOUTS",
    "SIMULATIONS",
    "EvaluationWeights",
    "Expert",
    "ExpertGuide",
    "GameModel",
    "Grown",
    "Guide",
    "HackMatrixModel",
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
    "evaluate_next_stage",
    "evaluate_result",
    "gumbel_noise",
    "win_probability",
    "win_terms",
]
