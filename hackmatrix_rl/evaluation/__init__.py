"""How well a policy plays, and scripted players to compare it with."""

from hackmatrix_rl.evaluation._baselines import (
    RandomAgent,
    Runner,
)
from hackmatrix_rl.evaluation._divergence import (
    policy_divergence,
)
from hackmatrix_rl.evaluation._estimate import (
    Estimate,
    mean_of,
    rate_of,
)
from hackmatrix_rl.evaluation._evaluate import (
    Evaluation,
    evaluate,
    evaluate_all,
)
from hackmatrix_rl.evaluation._player import (
    Agent,
    PolicyAgent,
)
from hackmatrix_rl.evaluation._verdict import (
    Judgement,
    Verdict,
    judge,
)

__all__ = [
    "Agent",
    "Estimate",
    "Evaluation",
    "Judgement",
    "PolicyAgent",
    "RandomAgent",
    "Runner",
    "Verdict",
    "evaluate",
    "evaluate_all",
    "judge",
    "mean_of",
    "policy_divergence",
    "rate_of",
]
