"""The choices of settings of supervised learning, which commands list without importing JAX."""

TASKS = ("sudoku", "maze")
"""The values of `--task`."""
OUTPUT_LOSSES = ("stablemax", "softmax")
"""The values of `--output-loss`."""
FIRST_HIGH, FIRST_LOW = 1, 2
"""The cycles at the start of a curriculum."""
DECAYS = {"beta2": 0.95, "weight_decay": 0.1}
"""The defaults of AdamW and AdamATan2 here."""
