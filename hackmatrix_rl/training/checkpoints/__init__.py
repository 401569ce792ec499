"""Training state on disk, and back."""

from hackmatrix_rl.training.checkpoints.finder import find_checkpoint, whole_checkpoint
from hackmatrix_rl.training.checkpoints.metadata import (
    FORMAT,
    check_resumable,
    read_metadata,
)
from hackmatrix_rl.training.checkpoints.reader import (
    Loaded,
    load,
    read_arrays,
    restore,
)
from hackmatrix_rl.training.checkpoints.writer import CheckpointWriter, Outcome

__all__ = [
    "FORMAT",
    "CheckpointWriter",
    "Loaded",
    "Outcome",
    "check_resumable",
    "find_checkpoint",
    "load",
    "read_arrays",
    "read_metadata",
    "restore",
    "whole_checkpoint",
]
