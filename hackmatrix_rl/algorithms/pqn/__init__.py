"""Q-learning on rollouts, without a replay buffer and without a target network."""

from ._config import PQNConfig as PQNConfig
from ._pqn import PQN as PQN
