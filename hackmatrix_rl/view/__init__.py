"""Positions as pictures, in the terminal, and as pages."""

from hackmatrix_rl.view._frame import (
    Cell,
    Enemy,
    Frame,
    Shot,
    SiphonYield,
    Transmission,
    frame_of,
    frames_of,
    neighbours,
)
from hackmatrix_rl.view._keys import (
    KEYS,
)
from hackmatrix_rl.view._reasons import (
    why_not,
)

__all__ = [
    "KEYS",
    "Cell",
    "Enemy",
    "Frame",
    "Shot",
    "SiphonYield",
    "Transmission",
    "frame_of",
    "frames_of",
    "neighbours",
    "why_not",
]
