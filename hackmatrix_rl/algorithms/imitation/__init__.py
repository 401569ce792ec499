"""Imitation: a student learns from a teacher, by the gradient steps of PPO."""

from hackmatrix_rl.algorithms.imitation._config import ImitationConfig
from hackmatrix_rl.algorithms.imitation._demonstrations import (
    Demonstrations,
    DemonstrationsHeader,
    DemonstrationsWriter,
    StoredDemonstrations,
    read_demonstrations,
)
from hackmatrix_rl.algorithms.imitation._imitation import Imitation
from hackmatrix_rl.algorithms.imitation._loss import CloneLoss
from hackmatrix_rl.algorithms.imitation._recording import record_demonstrations
from hackmatrix_rl.env import BoardSymmetries

__all__ = [
    "BoardSymmetries",
    "CloneLoss",
    "Demonstrations",
    "DemonstrationsHeader",
    "DemonstrationsWriter",
    "Imitation",
    "ImitationConfig",
    "StoredDemonstrations",
    "read_demonstrations",
    "record_demonstrations",
]
