"""training.compiled."""

from hackmatrix_rl.training.compiled._collectives import (
    Collective,
    collectives,
)

__all__ = [
    "Collective",
    "collectives",
]
