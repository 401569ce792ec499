"""What a `Trainer` trains by: each algorithm is a package of its own in here.

`ppo`, `imitation`, `r2d2`, `pqn` and `self_play` each hold one subclass of
`hackmatrix_rl.training.Algorithm`, with all that only it needs. Imitation is built on PPO.
"""

__all__: list[str] = []
