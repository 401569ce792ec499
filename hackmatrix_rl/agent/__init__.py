"""Learning: networks, distributions, precision, rollouts, advantages and losses.

Each module here can be used alone, in a notebook; `hackmatrix_rl.algorithms` composes them.
"""

from ._action_choice import DRAWN as DRAWN
from ._action_choice import ActionChoice as ActionChoice
from ._action_choice import EpsilonGreedyChoice as EpsilonGreedyChoice
from ._action_choice import MaskedCategorical as MaskedCategorical
from ._action_choice import QLosses as QLosses
from ._action_choice import best_action as best_action
from ._action_choice import epsilon_greedy as epsilon_greedy
from ._action_choice import value_of as value_of
from ._auxiliary import AuxiliaryLoss as AuxiliaryLoss
from ._auxiliary import AuxiliaryMetrics as AuxiliaryMetrics
from ._auxiliary import AuxiliaryTargets as AuxiliaryTargets
from ._batch import Batch as Batch
from ._collector_state import CollectorState as CollectorState
from ._collector_state import start_collector as start_collector
from ._contract import check_is_policy as check_is_policy
from ._contract import check_policy as check_policy
from ._contract import check_policy_numbers as check_policy_numbers
from ._contract import check_policy_shapes as check_policy_shapes
from ._contract import precision_of as precision_of
from ._contract import wide_layers as wide_layers
from ._gae import GAE as GAE
from ._gae import AdvantageEstimator as AdvantageEstimator
from ._gae import Targets as Targets
from ._loss import LossMetrics as LossMetrics
from ._loss import PPOLoss as PPOLoss
from ._loss import Unrolled as Unrolled
from ._rollout import Collector as Collector
from ._rollout import EpisodeSums as EpisodeSums
from ._rollout import Rollout as Rollout
from ._rollout import RolloutCollector as RolloutCollector
from ._schedules import After as After
from ._schedules import Constant as Constant
from ._schedules import Cosine as Cosine
from ._schedules import Linear as Linear
from ._schedules import Piecewise as Piecewise
from ._schedules import Schedule as Schedule
from ._schedules import Scheduled as Scheduled
from ._schedules import as_arguments as as_arguments
from ._schedules import at as at
from ._schedules import ends_of as ends_of
from ._schedules import scheduled_at as scheduled_at
from ._value_scale import IDENTITY_SCALE as IDENTITY_SCALE
from ._value_scale import IdentityScale as IdentityScale
from ._value_scale import RunningScale as RunningScale
from ._value_scale import ValueScale as ValueScale
