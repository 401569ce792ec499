"""Composition: the trainer and what a run is made of."""

from hackmatrix_rl.training._algorithm import (
    Algorithm,
    AlgorithmState,
    Dispatch,
)
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
from hackmatrix_rl.training._schedules import (
    Constant,
    Linear,
    Schedule,
)
from hackmatrix_rl.training._state import (
    Learner,
    TrainState,
)
from hackmatrix_rl.training._trainer import (
    Trainer,
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
    "TrainState",
    "Trainer",
    "UpdateMetrics",
    "adam",
    "call_back",
    "checked",
    "compiler_options",
    "evaluation_metrics",
    "is_shape",
    "reports_of",
]
