"""Checkpoints: the training state on disk."""

from hackmatrix_rl.checkpoints._complaints import (
    Complaints,
)
from hackmatrix_rl.checkpoints._finder import (
    Report,
    checkpoints_in,
    find_checkpoint,
    run_of,
    whole_checkpoint,
)
from hackmatrix_rl.checkpoints._initial import (
    initial_weights,
)
from hackmatrix_rl.checkpoints._manifest import (
    NAME,
)
from hackmatrix_rl.checkpoints._metadata import (
    FORMAT,
    check_resumable,
    read_metadata,
)
from hackmatrix_rl.checkpoints._policy_file import (
    save,
)
from hackmatrix_rl.checkpoints._reader import (
    Loaded,
    load,
    read_arrays,
    restore,
)
from hackmatrix_rl.checkpoints._writer import (
    CheckpointWriter,
    SaveResult,
)
from hackmatrix_rl.training import (
    Stored,
)

__all__ = [
    "FORMAT",
    "NAME",
    "CheckpointWriter",
    "Complaints",
    "Loaded",
    "Report",
    "SaveResult",
    "Stored",
    "check_resumable",
    "checkpoints_in",
    "find_checkpoint",
    "initial_weights",
    "load",
    "read_arrays",
    "read_metadata",
    "restore",
    "run_of",
    "save",
    "whole_checkpoint",
]
