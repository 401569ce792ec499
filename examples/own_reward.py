"""Training with other weights for the terms of the reward; evaluation uses the game's own, too.

python own_reward.py [STEPS]
"""

import sys

import jax

import hackmatrix_rl as hm

# Each weight multiplies one term of the reward; 1 is the game's own. A victory is worth hundreds of
# points, and an agent that never wins learns nothing from it.
WEIGHTS = hm.RewardConfig(victory=0.0, score_gain=0.0, stage_completion=2.0)


def main(steps: int) -> None:
    environment = hm.HackMatrix(max_steps=1000, reward=WEIGHTS)
    network = hm.MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    trainer = hm.Trainer(
        hm.PPO(environment, network, num_envs=128, num_steps=32), updates_per_dispatch=8
    )
    for metrics in trainer.train(steps, key=jax.random.key(1)):
        print(metrics.summary())
    found = hm.evaluate(trainer.policy, environment, episodes=200, key=jax.random.key(2))
    for name in ("learned_return", "return", "stage"):
        print(f"{name:15} {found.estimate(name).mean:+.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
