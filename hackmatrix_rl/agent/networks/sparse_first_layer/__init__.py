"""The first layer of a dense network, computed with less work than all features take.

One class is for others: the evaluator. All other modules in this folder are its parts.
"""

from hackmatrix_rl.agent.networks.sparse_first_layer._evaluator import SparseFirstLayerEvaluator

__all__ = [
    "SparseFirstLayerEvaluator",
]
