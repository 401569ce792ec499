"""Tasks that need memory, each with its known best return and what a player without memory gets."""

from ._choice_task import ChoiceTask as ChoiceTask
from ._choice_task import MemoryTask as MemoryTask
from ._choice_task import TrialState as TrialState
from ._decisions import ContextConfig as ContextConfig
from ._decisions import ContextDecision as ContextDecision
from ._decisions import ContextTrial as ContextTrial
from ._decisions import DelayedMatch as DelayedMatch
from ._decisions import DelayedMatchConfig as DelayedMatchConfig
from ._decisions import MatchTrial as MatchTrial
from ._decisions import PerceptualConfig as PerceptualConfig
from ._decisions import PerceptualDecision as PerceptualDecision
from ._decisions import PerceptualTrial as PerceptualTrial
from ._n_back import NBack as NBack
from ._n_back import NBackConfig as NBackConfig
from ._n_back import NBackState as NBackState
from ._t_maze import LEFT as LEFT
from ._t_maze import RIGHT as RIGHT
from ._t_maze import TMaze as TMaze
from ._t_maze import TMazeConfig as TMazeConfig
from ._t_maze import TMazeState as TMazeState
