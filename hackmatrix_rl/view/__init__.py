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

__all__ = [
    "Cell",
    "Enemy",
    "Frame",
    "Shot",
    "SiphonYield",
    "Transmission",
    "frame_of",
    "frames_of",
    "neighbours",
]
