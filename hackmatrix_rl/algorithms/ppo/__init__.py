"""Proximal policy optimization."""

from hackmatrix_rl.algorithms.ppo._config import PPOConfig
from hackmatrix_rl.algorithms.ppo._ppo import PPO, PPOState

__all__ = ["PPO", "PPOConfig", "PPOState"]
