"""The difficulty levels of a Sudoku. Commands list them without importing JAX."""

LEVELS = ("easy", "any", "hard")
"""`easy`: singles alone solve it. `any`: a unique solution. `hard`: it needs a guess."""
