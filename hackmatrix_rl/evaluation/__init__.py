"""How well a policy plays, and scripted players to compare it with."""

from hackmatrix_rl.evaluation.estimate import Estimate, mean_of, rate_of
from hackmatrix_rl.evaluation.evaluate import Evaluation, evaluate
from hackmatrix_rl.evaluation.player import Player, PolicyPlayer

__all__ = [
    "Estimate",
    "Evaluation",
    "Player",
    "PolicyPlayer",
    "evaluate",
    "mean_of",
    "rate_of",
]
