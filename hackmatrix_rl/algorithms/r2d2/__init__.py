"""Q-learning that replays sequences, for networks with memory."""

from hackmatrix_rl.algorithms.r2d2._acting import EpsilonGreedy
from hackmatrix_rl.algorithms.r2d2._buffer import Prioritized, Sampling, Uniform
from hackmatrix_rl.algorithms.r2d2._config import R2D2Config
from hackmatrix_rl.algorithms.r2d2._play_ahead import play_ahead
from hackmatrix_rl.algorithms.r2d2._q_values import SquareRootScale
from hackmatrix_rl.algorithms.r2d2._r2d2 import R2D2

__all__ = [
    "R2D2",
    "EpsilonGreedy",
    "Prioritized",
    "R2D2Config",
    "Sampling",
    "SquareRootScale",
    "Uniform",
    "play_ahead",
]
