"""Tasks that need memory, each with its known best return and what a player without memory gets."""

from hackmatrix_rl.memory_tasks._choice_task import ABORTED, ChoiceTask, MemoryTask, TrialState
from hackmatrix_rl.memory_tasks._decisions import (
    ContextConfig,
    ContextDecision,
    ContextTrial,
    DelayedMatch,
    DelayedMatchConfig,
    MatchTrial,
    PerceptualConfig,
    PerceptualDecision,
    PerceptualTrial,
)
from hackmatrix_rl.memory_tasks._n_back import NBack, NBackConfig, NBackState
from hackmatrix_rl.memory_tasks._t_maze import FORWARD, LEFT, RIGHT, TMaze, TMazeConfig, TMazeState

__all__ = [
    "ABORTED",
    "FORWARD",
    "LEFT",
    "RIGHT",
    "ChoiceTask",
    "ContextConfig",
    "ContextDecision",
    "ContextTrial",
    "DelayedMatch",
    "DelayedMatchConfig",
    "MatchTrial",
    "MemoryTask",
    "NBack",
    "NBackConfig",
    "NBackState",
    "PerceptualConfig",
    "PerceptualDecision",
    "PerceptualTrial",
    "TMaze",
    "TMazeConfig",
    "TMazeState",
    "TrialState",
]
