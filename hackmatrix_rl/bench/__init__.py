"""Speed measurements: environment, learning, training, and pgx beside them."""

from ._benchmark import LEARNING_SIZES as LEARNING_SIZES
from ._benchmark import Benchmark as Benchmark
from ._benchmark import SpeedComparison as SpeedComparison
from ._benchmark import benchmark as benchmark
from ._benchmark import chosen_sizes as chosen_sizes
from ._benchmark import compare_with_pgx as compare_with_pgx
from ._benchmark import device_of as device_of
from ._environment_speed import Speed as Speed
from ._full_benchmark import Part as Part
from ._full_benchmark import check_sizes as check_sizes
from ._full_benchmark import default_sizes as default_sizes
from ._full_benchmark import full_benchmark as full_benchmark
