"""A sweep over seeds: trains and evaluates each seed, and prints the mean with its interval.

`hackmatrix-rl compare A.toml B.toml` does this for two settings, with a verdict.

python sweep_seeds.py [STEPS] [SEEDS]
"""

import sys

import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import mean_of


def result(seed: int, steps: int) -> float:
    environment = hm.HackMatrix(max_steps=1000)
    network_key, train_key, games_key = jax.random.split(jax.random.key(seed), 3)
    network = hm.MLPActorCritic(environment.spec, width=64, key=network_key)
    trainer = hm.Trainer(
        hm.PPO(environment, network, num_envs=128, num_steps=32), updates_per_dispatch=8
    )
    for _ in trainer.train(steps, key=train_key):
        pass
    found = hm.evaluate(trainer.policy, environment, episodes=200, key=games_key)
    mean = found.estimate("return")
    print(f"seed {seed}: return {mean.mean:+.2f} ({mean.low:+.2f} to {mean.high:+.2f})")
    return mean.mean


def main(steps: int, seeds: int) -> None:
    found = mean_of(np.array([result(seed, steps) for seed in range(seeds)]))
    print(f"{seeds} seeds: return {found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})")


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]]
    main(*numbers, *(500_000, 3)[len(numbers) :])
