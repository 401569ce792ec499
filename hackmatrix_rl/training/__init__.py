"""Composition: the trainer and what a run is made of."""

from hackmatrix_rl.agent import Constant, Cosine, Linear, Schedule
from hackmatrix_rl.training._algorithm import (
    Algorithm,
    AlgorithmState,
    Dispatch,
)
from hackmatrix_rl.training._arguments import critic_warmup_of, optimizer_of
from hackmatrix_rl.training._callbacks import (
    Callback,
    StopTraining,
    call_back,
)
from hackmatrix_rl.training._counter import (
    Counter,
)
from hackmatrix_rl.training._debug import (
    CHECKS,
    NANS,
    NOJIT,
    Reports,
    checked,
    reports_of,
)
from hackmatrix_rl.training._evaluate_every import (
    EVALUATION,
    EvaluateEvery,
    evaluation_metrics,
)
from hackmatrix_rl.training._gradients import (
    Loss,
)
from hackmatrix_rl.training._metrics import (
    Metrics,
)
from hackmatrix_rl.training._minibatches import (
    Minibatches,
)
from hackmatrix_rl.training._one_by_one import (
    add_up,
)
from hackmatrix_rl.training._optimizer import (
    adam,
)
from hackmatrix_rl.training._ppo import (
    PPO,
)
from hackmatrix_rl.training._ppo_metrics import (
    UpdateMetrics,
)
from hackmatrix_rl.training._program import (
    compiler_options,
    is_shape,
)
from hackmatrix_rl.training._state import (
    Learner,
    TrainState,
    filter_scan,
)
from hackmatrix_rl.training._stored import (
    Stored,
    Tree,
    arrays_to_store,
    leaves_by_path,
    random_keys,
)
from hackmatrix_rl.training._teacher import check_teacher
from hackmatrix_rl.training._trainer import (
    Trainer,
)
from hackmatrix_rl.training._tree_file import (
    is_tree_file,
    read_tree,
    write_tree,
)

__all__ = [
    "CHECKS",
    "EVALUATION",
    "NANS",
    "NOJIT",
    "PPO",
    "Algorithm",
    "AlgorithmState",
    "Callback",
    "Constant",
    "Cosine",
    "Counter",
    "Dispatch",
    "EvaluateEvery",
    "Learner",
    "Linear",
    "Loss",
    "Metrics",
    "Minibatches",
    "Reports",
    "Schedule",
    "StopTraining",
    "Stored",
    "TrainState",
    "Trainer",
    "Tree",
    "UpdateMetrics",
    "adam",
    "add_up",
    "arrays_to_store",
    "call_back",
    "check_teacher",
    "checked",
    "compiler_options",
    "critic_warmup_of",
    "evaluation_metrics",
    "filter_scan",
    "is_shape",
    "is_tree_file",
    "leaves_by_path",
    "optimizer_of",
    "random_keys",
    "read_tree",
    "reports_of",
    "write_tree",
]
