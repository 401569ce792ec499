"""Precision: the dtypes a network computes in, loss scaling, and which arrays are trained."""

from hackmatrix_rl.agent.precision._names import parse_parts, parse_policy
from hackmatrix_rl.agent.precision._policy import (
    FLOAT32,
    LossScale,
    MixedPrecision,
    PrecisionPolicy,
    equations,
    precision,
    products,
)
from hackmatrix_rl.agent.precision._trainable import (
    NonTrainable,
    accumulate_in_float32,
    parameter_paths,
    parameters_of,
    path_name,
    split_trainable,
)

__all__ = [
    "FLOAT32",
    "LossScale",
    "MixedPrecision",
    "NonTrainable",
    "PrecisionPolicy",
    "accumulate_in_float32",
    "equations",
    "parameter_paths",
    "parameters_of",
    "parse_parts",
    "parse_policy",
    "path_name",
    "precision",
    "products",
    "split_trainable",
]
