"""Q-learning that replays sequences, for networks with memory."""

from hackmatrix_rl.algorithms.r2d2._acting import (
    EpsilonGreedy,
    LastPosition,
    NewSteps,
    Steps,
    play_steps,
)
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Sample, with_priorities
from hackmatrix_rl.algorithms.r2d2._config import R2D2Config
from hackmatrix_rl.algorithms.r2d2._learning import LearnerState, LearnFromSequences
from hackmatrix_rl.algorithms.r2d2._loss import SequenceLoss
from hackmatrix_rl.algorithms.r2d2._play_ahead import play_ahead
from hackmatrix_rl.algorithms.r2d2._q_values import memory_after, q_values, unroll_q
from hackmatrix_rl.algorithms.r2d2._r2d2 import R2D2
from hackmatrix_rl.algorithms.r2d2._sampling import Prioritized, Sampling, Uniform
from hackmatrix_rl.algorithms.r2d2._sizes import Sizes
from hackmatrix_rl.algorithms.r2d2._state import ActorsAndSteps, R2D2State
from hackmatrix_rl.algorithms.r2d2._targets import double_q, n_step_returns
from hackmatrix_rl.algorithms.r2d2._value_scale import SquareRootScale

__all__ = [
    "R2D2",
    "ActorsAndSteps",
    "Buffer",
    "EpsilonGreedy",
    "LastPosition",
    "LearnFromSequences",
    "LearnerState",
    "NewSteps",
    "Prioritized",
    "R2D2Config",
    "R2D2State",
    "Sample",
    "Sampling",
    "SequenceLoss",
    "Sizes",
    "SquareRootScale",
    "Steps",
    "Uniform",
    "double_q",
    "memory_after",
    "n_step_returns",
    "play_ahead",
    "play_steps",
    "q_values",
    "unroll_q",
    "with_priorities",
]
