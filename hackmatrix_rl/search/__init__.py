"""Players that try moves out: one move ahead, and by games that they imagine."""

from ._evaluation import evaluate as evaluate
from ._evaluation import win_probability as win_probability
from ._evaluation import win_terms as win_terms
from ._expert import Expert as Expert
from ._game_model import GameModel as GameModel
from ._game_model import HackMatrixModel as HackMatrixModel
from ._game_model import ImaginedStep as ImaginedStep
from ._game_model import SingleGameModel as SingleGameModel
from ._guide import ExpertGuide as ExpertGuide
from ._guide import Guide as Guide
from ._guide import NetworkGuide as NetworkGuide
from ._harvester import Harvester as Harvester
from ._rollout_search import LEAST_ROLLOUTS as LEAST_ROLLOUTS
from ._rollout_search import RolloutSearch as RolloutSearch
from ._searcher import Searcher as Searcher
from ._tree_search import Grown as Grown
from ._tree_search import Improvement as Improvement
from ._tree_search import Prior as Prior
from ._tree_search import Roots as Roots
from ._tree_search import SearchResult as SearchResult
from ._tree_search import Trees as Trees
from ._tree_search import TreeSearch as TreeSearch
from ._tree_search import gumbel_noise as gumbel_noise
from ._unseen import draw_unseen as draw_unseen
from ._weights import EvaluationWeights as EvaluationWeights
from ._weights import WinWeights as WinWeights
