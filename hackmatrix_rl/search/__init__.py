"""Players that try moves out: one move ahead, and by games that they imagine."""

from hackmatrix_rl.search._evaluation import (
    evaluate,
    evaluate_next_stage,
    evaluate_result,
)
from hackmatrix_rl.search._expert import (
    Expert,
)
from hackmatrix_rl.search._unseen import (
    draw_unseen,
)
from hackmatrix_rl.search._weights import (
    EvaluationWeights,
    WinWeights,
)

__all__ = [
    "EvaluationWeights",
    "Expert",
    "WinWeights",
    "draw_unseen",
    "evaluate",
    "evaluate_next_stage",
    "evaluate_result",
]
