"""agent.networks.sparse_first_layer."""

from hackmatrix_rl.agent.networks.sparse_first_layer._first_layer import (
    keep,
    product_of_next,
    product_of_steps,
)
from hackmatrix_rl.agent.networks.sparse_first_layer._split import (
    split_features,
)

__all__ = [
    "keep",
    "product_of_next",
    "product_of_steps",
    "split_features",
]
