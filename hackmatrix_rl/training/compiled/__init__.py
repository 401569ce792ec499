"""Facts about a compiled program: its collectives and its size."""

from hackmatrix_rl.training.compiled._collectives import Collective, collectives, program_bytes

__all__ = ["Collective", "collectives", "program_bytes"]
