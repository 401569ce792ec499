"""Learning: networks, distributions, precision, rollouts, advantages and losses.

Each module here can be used alone, in a notebook; `hackmatrix_rl.algorithms` composes them.
"""

from hackmatrix_rl.agent._action_choice import (
    DRAWN,
    ActionChoice,
    EpsilonGreedyChoice,
    QLosses,
    best_action,
    epsilon_greedy,
    value_of,
)
from hackmatrix_rl.agent._auxiliary import AuxiliaryLoss, AuxiliaryMetrics, AuxiliaryTargets
from hackmatrix_rl.agent._batch import Batch
from hackmatrix_rl.agent._collector_state import CollectorState, start_collector
from hackmatrix_rl.agent._contract import (
    check_is_policy,
    check_policy,
    check_policy_shapes,
    precision_of,
)
from hackmatrix_rl.agent._distribution import MaskedCategorical
from hackmatrix_rl.agent._gae import GAE, AdvantageEstimator, Targets
from hackmatrix_rl.agent._loss import LossMetrics, PPOLoss, Unrolled
from hackmatrix_rl.agent._rollout import Collector, EpisodeSums, Rollout, RolloutCollector
from hackmatrix_rl.agent._schedules import (
    After,
    Constant,
    Cosine,
    Linear,
    Schedule,
    Scheduled,
    at,
    ends_of,
    scheduled_at,
)
from hackmatrix_rl.agent._value_scale import IDENTITY_SCALE, IdentityScale, RunningScale, ValueScale

__all__ = [
    "DRAWN",
    "GAE",
    "IDENTITY_SCALE",
    "ActionChoice",
    "AdvantageEstimator",
    "After",
    "AuxiliaryLoss",
    "AuxiliaryMetrics",
    "AuxiliaryTargets",
    "Batch",
    "Collector",
    "CollectorState",
    "Constant",
    "Cosine",
    "EpisodeSums",
    "EpsilonGreedyChoice",
    "IdentityScale",
    "Linear",
    "LossMetrics",
    "MaskedCategorical",
    "PPOLoss",
    "QLosses",
    "Rollout",
    "RolloutCollector",
    "RunningScale",
    "Schedule",
    "Scheduled",
    "Targets",
    "Unrolled",
    "ValueScale",
    "at",
    "best_action",
    "check_is_policy",
    "check_policy",
    "check_policy_shapes",
    "ends_of",
    "epsilon_greedy",
    "precision_of",
    "scheduled_at",
    "start_collector",
    "value_of",
]
