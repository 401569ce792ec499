"""Speed measurements: environment, learning, training, and pgx beside them."""

from hackmatrix_rl.bench._benchmark import (
    LEARNING_SIZES,
    Benchmark,
    SpeedComparison,
    benchmark,
    chosen_sizes,
    compare_with_pgx,
    device_of,
)
from hackmatrix_rl.bench._environment_speed import Speed
from hackmatrix_rl.bench._full_benchmark import Part, check_sizes, default_sizes, full_benchmark

__all__ = [
    "LEARNING_SIZES",
    "Benchmark",
    "Part",
    "Speed",
    "SpeedComparison",
    "benchmark",
    "check_sizes",
    "chosen_sizes",
    "compare_with_pgx",
    "default_sizes",
    "device_of",
    "full_benchmark",
]
