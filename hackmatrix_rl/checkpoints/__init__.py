"""Checkpoints: the training state on disk."""

from hackmatrix_rl.checkpoints._complaints import Complaints
from hackmatrix_rl.checkpoints._finder import (
    CARD,
    PRETRAINED,
    Report,
    checkpoints_in,
    find_checkpoint,
    in_league,
    run_of,
    whole_checkpoint,
)
from hackmatrix_rl.checkpoints._initial import initial_settings, initial_weights
from hackmatrix_rl.checkpoints._manifest import NAME
from hackmatrix_rl.checkpoints._metadata import (
    FORMAT,
    check_playable,
    check_resumable,
    read_metadata,
    valid_names,
)
from hackmatrix_rl.checkpoints._reader import Loaded, load, read_arrays, restore, to_device
from hackmatrix_rl.checkpoints._writer import CheckpointWriter, SaveResult, save, trim_checkpoint
from hackmatrix_rl.training import Stored

__all__ = [
    "CARD",
    "FORMAT",
    "NAME",
    "PRETRAINED",
    "CheckpointWriter",
    "Complaints",
    "Loaded",
    "Report",
    "SaveResult",
    "Stored",
    "check_playable",
    "check_resumable",
    "checkpoints_in",
    "find_checkpoint",
    "in_league",
    "initial_settings",
    "initial_weights",
    "load",
    "read_arrays",
    "read_metadata",
    "restore",
    "run_of",
    "save",
    "to_device",
    "trim_checkpoint",
    "valid_names",
    "whole_checkpoint",
]
