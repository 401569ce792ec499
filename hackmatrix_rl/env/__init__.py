"""The reinforcement-learning face of the game, and of environments in general."""

from hackmatrix_rl.env.cartpole import CartPole
from hackmatrix_rl.env.encoding import Observation, classic_from_compact, observe
from hackmatrix_rl.env.environment import (
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Features,
    Timestep,
    env_keys,
    flat_features,
)
from hackmatrix_rl.env.hackmatrix import HackMatrix, HackMatrixState
from hackmatrix_rl.env.identity import GameIdentity, game_identity
from hackmatrix_rl.env.observation import (
    CELL,
    CompactObservation,
    Number,
    Sight,
    compact_observation,
)

__all__ = [
    "CELL",
    "CartPole",
    "CompactObservation",
    "EnvSpec",
    "Environment",
    "EpisodeStatistics",
    "Features",
    "GameIdentity",
    "HackMatrix",
    "HackMatrixState",
    "Number",
    "Observation",
    "Sight",
    "Timestep",
    "classic_from_compact",
    "compact_observation",
    "env_keys",
    "flat_features",
    "game_identity",
    "observe",
]
