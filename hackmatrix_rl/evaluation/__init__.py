"""How well a policy plays, and scripted players to compare it with."""

from hackmatrix_rl.evaluation.baselines import RandomPlayer, Runner
from hackmatrix_rl.evaluation.estimate import Estimate, mean_of, rate_of
from hackmatrix_rl.evaluation.evaluate import Evaluation, evaluate, evaluate_all
from hackmatrix_rl.evaluation.player import Player, PolicyPlayer

__all__ = [
    "Estimate",
    "Evaluation",
    "Player",
    "PolicyPlayer",
    "RandomPlayer",
    "Runner",
    "evaluate",
    "evaluate_all",
    "mean_of",
    "rate_of",
]
