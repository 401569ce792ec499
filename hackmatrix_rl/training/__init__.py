"""Composition: the trainer and what a run is made of."""

from hackmatrix_rl.training._counter import (
    Counter,
)
from hackmatrix_rl.training._debug import (
    CHECKS,
    NANS,
    NOJIT,
    EagerTrainer,
    Reports,
    checked,
    reports_of,
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
from hackmatrix_rl.training._update import (
    Update,
    UpdateMetrics,
)

__all__ = [
    "CHECKS",
    "NANS",
    "NOJIT",
    "Constant",
    "Counter",
    "EagerTrainer",
    "Learner",
    "Linear",
    "Loss",
    "Metrics",
    "Minibatches",
    "Reports",
    "Schedule",
    "TrainState",
    "Trainer",
    "Update",
    "UpdateMetrics",
    "adam",
    "checked",
    "compiler_options",
    "is_shape",
    "reports_of",
]
