"""Self-play: a network and a search improve each other in games of two players."""

from hackmatrix_rl.env import VertexPermutations as VertexPermutations

from ._config import SelfPlayConfig as SelfPlayConfig
from ._counterexamples import colourings_of as colourings_of
from ._gating import Gate as Gate
from ._league import JudgedMatch as JudgedMatch
from ._league import Mistakes as Mistakes
from ._league import Standings as Standings
from ._league import judged_match as judged_match
from ._league import league as league
from ._league import mistakes as mistakes
from ._league import ratings as ratings
from ._learning import SearchLoss as SearchLoss
from ._load import LoadedSelfPlay as LoadedSelfPlay
from ._load import load_self_play as load_self_play
from ._match import BoardPlayer as BoardPlayer
from ._match import MatchResult as MatchResult
from ._match import PerfectPlayer as PerfectPlayer
from ._match import RandomPlayer as RandomPlayer
from ._match import SearchPlayer as SearchPlayer
from ._match import match as match
from ._search import PlayoutCap as PlayoutCap
from ._search import Search as Search
from ._self_play import SelfPlay as SelfPlay
