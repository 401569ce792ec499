"""How well a policy plays, and scripted players to compare it with."""

from hackmatrix_rl.evaluation._contract import check_player
from hackmatrix_rl.evaluation._episodes import start_key, step_keys
from hackmatrix_rl.evaluation._estimate import Estimate, Judgement, Verdict, judge, mean_of, rate_of
from hackmatrix_rl.evaluation._evaluate import (
    Evaluation,
    OnProgress,
    evaluate,
    evaluate_all,
    policy_divergence,
)
from hackmatrix_rl.evaluation._findings import (
    AFTERMATH,
    BINS,
    Calibration,
    Cause,
    Findings,
    Siphons,
    Stage,
    Tool,
    Undo,
    find,
)
from hackmatrix_rl.evaluation._journal import Journal, Moves, keep_journal
from hackmatrix_rl.evaluation._player import (
    SCRIPTS,
    Agent,
    GameAgent,
    PolicyAgent,
    RandomAgent,
    Runner,
    StateAgent,
    ThinkingAgent,
    Thought,
    consult,
    read_by,
    thinking,
)
from hackmatrix_rl.evaluation._steps import Step, play_steps

__all__ = [
    "AFTERMATH",
    "BINS",
    "SCRIPTS",
    "Agent",
    "Calibration",
    "Cause",
    "Estimate",
    "Evaluation",
    "Findings",
    "GameAgent",
    "Journal",
    "Judgement",
    "Moves",
    "OnProgress",
    "PolicyAgent",
    "RandomAgent",
    "Runner",
    "Siphons",
    "Stage",
    "StateAgent",
    "Step",
    "ThinkingAgent",
    "Thought",
    "Tool",
    "Undo",
    "Verdict",
    "check_player",
    "consult",
    "evaluate",
    "evaluate_all",
    "find",
    "judge",
    "keep_journal",
    "mean_of",
    "play_steps",
    "policy_divergence",
    "rate_of",
    "read_by",
    "start_key",
    "step_keys",
    "thinking",
]
