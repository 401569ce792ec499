"""Proximal policy optimization."""

from hackmatrix_rl.algorithms.ppo._arguments import critic_warmup_of
from hackmatrix_rl.algorithms.ppo._config import PPOConfig
from hackmatrix_rl.algorithms.ppo._ppo import PPO
from hackmatrix_rl.algorithms.ppo._state import PPOState
from hackmatrix_rl.algorithms.ppo._teacher import check_teacher

__all__ = ["PPO", "PPOConfig", "PPOState", "check_teacher", "critic_warmup_of"]
