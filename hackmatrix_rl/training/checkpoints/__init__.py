"""Training state on disk, and back."""

from hackmatrix_rl.training.checkpoints.reader import (
    FORMAT,
    Loaded,
    check_resumable,
    find_checkpoint,
    load,
    read_arrays,
    read_metadata,
    restore,
    whole_checkpoint,
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
