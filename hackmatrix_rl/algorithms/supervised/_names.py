"""The choices of settings of supervised learning, which commands list without importing JAX."""

TASKS = ("sudoku", "maze")
"""The values of `--task`."""
OUTPUT_LOSSES = ("stablemax", "softmax")
"""The values of `--output-loss`."""
OPTIMIZERS = ("adamw", "adam-atan2")
"""The values of `--optimizer`."""
FIRST_HIGH, FIRST_LOW = 1, 2
"""The cycles at the start of a curriculum."""
