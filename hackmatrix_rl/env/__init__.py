"""Environments for reinforcement learning: HackMatrix, CartPole, and what both have in common."""

from hackmatrix_rl.env._cartpole import CartPole
from hackmatrix_rl.env._check import check_environment
from hackmatrix_rl.env._clique_game import CliqueGame, CliqueObservation, VertexPermutations
from hackmatrix_rl.env._contract import check_is_environment, check_shapes, check_spec
from hackmatrix_rl.env._encoding import (
    CLASSIC_CHANNELS,
    SCREEN_CHANNELS,
    Channel,
    Observation,
    classic_from_compact,
    encode_cells,
    features_from_compact,
    observe,
)
from hackmatrix_rl.env._environment import (
    LEARNED_RETURN,
    Encoder,
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Features,
    Timestep,
    env_keys,
    flat_features,
)
from hackmatrix_rl.env._features import ActionFeatures, FeatureSplit
from hackmatrix_rl.env._forms import KINDS, Kind
from hackmatrix_rl.env._frontier import BLOCK, Frontier, whole_games
from hackmatrix_rl.env._hackmatrix import HackMatrix, HackMatrixGame, HackMatrixState
from hackmatrix_rl.env._identity import GameIdentity, clique_identity, game_identity, other_identity
from hackmatrix_rl.env._observation import (
    CELL,
    CompactObservation,
    Number,
    Sight,
    compact_observation,
)
from hackmatrix_rl.env._single_game import Batched, BatchedState, Played, SingleGame, board_features
from hackmatrix_rl.env._symmetries import (
    NUM_SYMMETRIES,
    BoardSymmetries,
    Changed,
    SeenBoard,
    Symmetry,
    turn,
)
from hackmatrix_rl.env._tactical_encoding import TACTICAL_PLANES, features_from_tactical
from hackmatrix_rl.env._tactical_observation import Memory, TacticalObservation, seen_position

__all__ = [
    "BLOCK",
    "CELL",
    "CLASSIC_CHANNELS",
    "KINDS",
    "LEARNED_RETURN",
    "NUM_SYMMETRIES",
    "SCREEN_CHANNELS",
    "TACTICAL_PLANES",
    "ActionFeatures",
    "Batched",
    "BatchedState",
    "BoardSymmetries",
    "CartPole",
    "Changed",
    "Channel",
    "CliqueGame",
    "CliqueObservation",
    "CompactObservation",
    "Encoder",
    "EnvSpec",
    "Environment",
    "EpisodeStatistics",
    "FeatureSplit",
    "Features",
    "Frontier",
    "GameIdentity",
    "HackMatrix",
    "HackMatrixGame",
    "HackMatrixState",
    "Kind",
    "Memory",
    "Number",
    "Observation",
    "Played",
    "SeenBoard",
    "Sight",
    "SingleGame",
    "Symmetry",
    "TacticalObservation",
    "Timestep",
    "VertexPermutations",
    "board_features",
    "check_environment",
    "check_is_environment",
    "check_shapes",
    "check_spec",
    "classic_from_compact",
    "clique_identity",
    "compact_observation",
    "encode_cells",
    "env_keys",
    "features_from_compact",
    "features_from_tactical",
    "flat_features",
    "game_identity",
    "observe",
    "other_identity",
    "seen_position",
    "turn",
    "whole_games",
]
