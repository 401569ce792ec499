from ._config import PPOConfig as PPOConfig
from ._ppo import PPO as PPO
from ._ppo import PPOState as PPOState
