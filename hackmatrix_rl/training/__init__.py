"""The trainer, and what algorithms share. It knows no algorithm."""

from hackmatrix_rl.agent import Constant, Cosine, Linear, Schedule
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, Counter
from hackmatrix_rl.training._debug import CHECKS, NANS, NOJIT, Reports, checked, reports_of
from hackmatrix_rl.training._evaluate_every import EVALUATION, EvaluateEvery, evaluation_metrics
from hackmatrix_rl.training._gradient_step import GradientStep, Loss, mean_weights
from hackmatrix_rl.training._hooks import Callback, Hook, StopTraining
from hackmatrix_rl.training._learner_algorithm import (
    VALUE_HEAD,
    Learner,
    LearnerAlgorithm,
    TrainState,
    is_value_head,
    scan_and_sum,
    state_shardings,
)
from hackmatrix_rl.training._minibatches import Minibatches, RolloutSizes
from hackmatrix_rl.training._optimizer import adam, optimizer_of
from hackmatrix_rl.training._program import CompiledEnvironment, compiler_options
from hackmatrix_rl.training._report import Dispatch, Metrics, StepReport, UpdateReport
from hackmatrix_rl.training._save_gif_every import SaveGifEvery
from hackmatrix_rl.training._stored import (
    Stored,
    Tree,
    arrays_to_store,
    leaves_by_path,
    random_keys,
)
from hackmatrix_rl.training._trainer import Trainer
from hackmatrix_rl.training._tree_file import is_tree_file, read_tree, write_tree

__all__ = [
    "CHECKS",
    "EVALUATION",
    "NANS",
    "NOJIT",
    "VALUE_HEAD",
    "Algorithm",
    "AlgorithmState",
    "Callback",
    "CompiledEnvironment",
    "Constant",
    "Cosine",
    "Counter",
    "Dispatch",
    "EvaluateEvery",
    "GradientStep",
    "Hook",
    "Learner",
    "LearnerAlgorithm",
    "Linear",
    "Loss",
    "Metrics",
    "Minibatches",
    "Reports",
    "RolloutSizes",
    "SaveGifEvery",
    "Schedule",
    "StepReport",
    "StopTraining",
    "Stored",
    "TrainState",
    "Trainer",
    "Tree",
    "UpdateReport",
    "adam",
    "arrays_to_store",
    "checked",
    "compiler_options",
    "evaluation_metrics",
    "is_tree_file",
    "is_value_head",
    "leaves_by_path",
    "mean_weights",
    "optimizer_of",
    "random_keys",
    "read_tree",
    "reports_of",
    "scan_and_sum",
    "state_shardings",
    "write_tree",
]
