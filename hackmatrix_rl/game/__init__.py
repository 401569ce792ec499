"""The rules of HackMatrix: one game, as pure functions of its state."""

from hackmatrix_rl.game.actions import NUM_ACTIONS, legal_actions
from hackmatrix_rl.game.arrays import from_arrays, to_arrays
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.play import Outcome, play
from hackmatrix_rl.game.programs import Program
from hackmatrix_rl.game.rewards import TERM_NAMES, RewardTerms
from hackmatrix_rl.game.stage import new_game
from hackmatrix_rl.game.state import Content, EnemyType, Position, State

__all__ = [
    "NUM_ACTIONS",
    "TERM_NAMES",
    "Content",
    "EnemyType",
    "GameConfig",
    "Outcome",
    "Position",
    "Program",
    "RewardTerms",
    "State",
    "from_arrays",
    "legal_actions",
    "new_game",
    "play",
    "to_arrays",
]
