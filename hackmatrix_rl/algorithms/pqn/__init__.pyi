from ._config import PQNConfig as PQNConfig
from ._pqn import PQN as PQN
