"""Imitation: a student learns from a teacher, by the same engine as PPO."""

from hackmatrix_rl.env import BoardSymmetries
from hackmatrix_rl.training.imitation._buffer import (
    Buffer,
    Labelled,
)
from hackmatrix_rl.training.imitation._demonstrations import (
    Demonstrations,
    DemonstrationsHeader,
    DemonstrationsWriter,
    StoredDemonstrations,
    read_demonstrations,
)
from hackmatrix_rl.training.imitation._imitation import (
    Imitation,
    ImitationState,
)
from hackmatrix_rl.training.imitation._labelling import (
    Label,
    Labelling,
    Teaching,
)
from hackmatrix_rl.training.imitation._loss import (
    CloneLoss,
)
from hackmatrix_rl.training.imitation._recording import (
    record_demonstrations,
)

__all__ = [
    "BoardSymmetries",
    "Buffer",
    "CloneLoss",
    "Demonstrations",
    "DemonstrationsHeader",
    "DemonstrationsWriter",
    "Imitation",
    "ImitationState",
    "Label",
    "Labelled",
    "Labelling",
    "StoredDemonstrations",
    "Teaching",
    "read_demonstrations",
    "record_demonstrations",
]
