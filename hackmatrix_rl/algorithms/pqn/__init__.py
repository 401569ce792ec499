"""Q-learning on rollouts, without a replay buffer and without a target network."""

from hackmatrix_rl.algorithms.pqn._config import PQNConfig
from hackmatrix_rl.algorithms.pqn._pqn import PQN

__all__ = ["PQN", "PQNConfig"]
