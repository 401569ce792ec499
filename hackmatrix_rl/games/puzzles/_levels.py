"""The difficulties of a Sudoku, by name. Commands list them without JAX."""

LEVELS = ("easy", "any", "hard")
"""Solved by singles alone, only known to have one answer, or in need of a guess."""
