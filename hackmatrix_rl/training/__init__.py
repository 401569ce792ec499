"""Composition: the trainer and what a run is made of."""

from hackmatrix_rl.training.counter import Counter
from hackmatrix_rl.training.metrics import Metrics
from hackmatrix_rl.training.minibatches import Minibatches
from hackmatrix_rl.training.optimizer import adam
from hackmatrix_rl.training.schedules import Constant, Linear, Schedule
from hackmatrix_rl.training.state import Learner, TrainState
from hackmatrix_rl.training.trainer import Trainer
from hackmatrix_rl.training.update import Update, UpdateMetrics

__all__ = [
    "Constant",
    "Counter",
    "Learner",
    "Linear",
    "Metrics",
    "Minibatches",
    "Schedule",
    "TrainState",
    "Trainer",
    "Update",
    "UpdateMetrics",
    "adam",
]
