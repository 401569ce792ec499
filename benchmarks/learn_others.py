"""Learns games of gymnax and gymnasium with this package's trainer, to their known returns.

    python benchmarks/learn_others.py cartpole [--seeds 0 1 2] [--steps N] [--json FILE]
    python benchmarks/learn_others.py cartpole-gymnasium breakout --seeds 0

After the training the policy plays 200 full episodes with sampled actions.

CartPole-v1 ends after 500 steps, so 500 is the largest return. For Breakout-MinAtar, the README of
gymnax reports 28 for the PPO of gymnax-blines, which trains 10 M steps with 64 games x 128 steps,
4 epochs of 8 minibatches and an MLP of two layers of 256.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear

EPISODES = 200


class Game(NamedTuple):
    """A game and the settings of its training.

    Attributes:
        make: the environment.
        known: the return to reach.
        steps: environment steps.
        width: of each of two dense layers.
        rate: the learning rate at the start; it falls to 0.
        ent_coef: weight of the entropy.
        sizes: of a rollout and its minibatches.
    """

    make: Callable[[], hm.Environment]
    known: float
    steps: int
    width: int
    rate: float
    ent_coef: float
    sizes: dict[str, int]


CARTPOLE = Game(
    make=lambda: hm.from_gymnax("CartPole-v1"),
    known=500,
    steps=1_000_000,
    width=64,
    rate=1e-3,
    ent_coef=0.0,
    sizes={"num_envs": 64, "num_steps": 64, "num_minibatches": 4},
)
GAMES = {
    "cartpole": CARTPOLE,
    "cartpole-gymnasium": CARTPOLE._replace(make=lambda: hm.from_gymnasium("CartPole-v1")),
    "breakout": Game(
        make=lambda: hm.from_gymnax("Breakout-MinAtar"),
        known=28,
        steps=10_000_000,
        width=64,
        rate=5e-3,
        ent_coef=0.01,
        sizes={"num_envs": 64, "num_steps": 128, "num_minibatches": 8},
    ),
}


def learn(game: Game, steps: int, seed: int) -> dict[str, Any]:
    """Trains, prints some lines meanwhile, and evaluates."""
    policy_key, key, episodes = jax.random.split(jax.random.key(seed), 3)
    environment = game.make()
    policy = hm.MLPActorCritic(environment.spec, width=game.width, depth=2, key=policy_key)
    trainer = hm.Trainer(
        hm.PPO(
            environment,
            policy,
            loss=hm.PPOLoss(ent_coef=game.ent_coef),
            learning_rate=Linear(game.rate, 0.0, steps),
            **game.sizes,
        ),
        updates_per_dispatch=10,
    )
    began = time.perf_counter()
    for metrics in trainer.train(steps, key=key):
        if metrics.updates % 50 == 0:
            print(metrics.summary(), flush=True)
    seconds = time.perf_counter() - began
    found = hm.evaluate(trainer.policy, environment, episodes=EPISODES, key=episodes)
    return {"seed": seed, "steps": steps, "seconds": seconds, **found.estimate("return").as_dict()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="+", choices=GAMES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="environment steps; default: by game")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    rows = []
    for name in options.games:
        game = GAMES[name]
        for seed in options.seeds:
            row = {"game": name} | learn(game, options.steps or game.steps, seed)
            rows.append(row)
            print(f"{name}, seed {seed}: return {row['mean']:.1f} ({row['ci95'][0]:.1f} to "
                  f"{row['ci95'][1]:.1f}), known {game.known}; {row['steps']:,} steps in "
                  f"{row['seconds']:.0f} s", flush=True)  # fmt: skip
            if options.json:
                options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
