"""Learning: networks, distributions, precision, rollouts, advantages and losses.

Each module here can be used alone, in a notebook; `hackmatrix_rl.training` composes them.
"""

from hackmatrix_rl.agent.actor_critic import ActorCritic, start_anew
from hackmatrix_rl.agent.conv import ConvActorCritic
from hackmatrix_rl.agent.distribution import MaskedCategorical
from hackmatrix_rl.agent.gae import GAE, Targets
from hackmatrix_rl.agent.gru import GRUActorCritic
from hackmatrix_rl.agent.loss import Batch, LossMetrics, PPOLoss
from hackmatrix_rl.agent.loss_scale import LossScale
from hackmatrix_rl.agent.mlp import MLPActorCritic
from hackmatrix_rl.agent.networks import NETWORKS, build_network, module_of
from hackmatrix_rl.agent.outcomes import OutcomeHead, OutcomeLoss, OutcomeMetrics, Outcomes
from hackmatrix_rl.agent.precision import MixedPrecision, PrecisionPolicy, precision
from hackmatrix_rl.agent.remat import REMAT, rematerialized
from hackmatrix_rl.agent.residual import ResidualActorCritic
from hackmatrix_rl.agent.rollout import (
    Actors,
    EpisodeSums,
    Rollout,
    RolloutCollector,
    start_actors,
)
from hackmatrix_rl.agent.trainable import NonTrainable, parameters_of, split_trainable
from hackmatrix_rl.agent.trunk import TrunkActorCritic, add_outcomes
from hackmatrix_rl.agent.value_scale import IdentityScale, RunningScale, ValueScale

__all__ = [
    "GAE",
    "NETWORKS",
    "REMAT",
    "ActorCritic",
    "Actors",
    "Batch",
    "ConvActorCritic",
    "EpisodeSums",
    "GRUActorCritic",
    "IdentityScale",
    "LossMetrics",
    "LossScale",
    "MLPActorCritic",
    "MaskedCategorical",
    "MixedPrecision",
    "NonTrainable",
    "OutcomeHead",
    "OutcomeLoss",
    "OutcomeMetrics",
    "Outcomes",
    "PPOLoss",
    "PrecisionPolicy",
    "ResidualActorCritic",
    "Rollout",
    "RolloutCollector",
    "RunningScale",
    "Targets",
    "TrunkActorCritic",
    "ValueScale",
    "add_outcomes",
    "build_network",
    "module_of",
    "parameters_of",
    "precision",
    "rematerialized",
    "split_trainable",
    "start_actors",
    "start_anew",
]
