"""Population-based training against the same population without it: PPO on CartPole.

    python benchmarks/population_based.py [--seeds 3] [--steps 200000] [--interval 10] [--json FILE]

Eight members start with learning rates from 1e-5 to 1e-1, evenly spaced on a logarithmic scale. One
population keeps them, the other copies and changes them every `--interval` updates. Both have the
same keys, network and steps. A return is the mean over the games that ended in ten updates.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.system import describe_device

SIZES = {"num_envs": 16, "num_steps": 64, "num_minibatches": 4, "update_epochs": 4}
RATES = np.logspace(-5, -1, 8)
PART = 10  # updates of which a return is the mean
SHARES = (0.25, 0.5, 1.0)


def members(seed: int) -> list[hm.PPO]:
    """PPO with each learning rate; the networks have different initial weights."""
    environment = hm.CartPole()
    keys = jax.random.split(jax.random.key(seed), len(RATES))
    policies = [hm.MLPActorCritic(environment.spec, width=64, depth=2, key=key) for key in keys]
    pairs = zip(policies, RATES, strict=True)
    return [
        hm.PPO(environment, policy, learning_rate=float(rate), **SIZES) for policy, rate in pairs
    ]


def curve(trainer: hm.Trainer[Any], steps: int, seed: int) -> np.ndarray:
    """The returns of all members after every `PART` updates; NaN where no game ended."""
    rows = trainer.train(steps, key=jax.random.split(jax.random.key(1000 + seed), len(RATES)))
    names = [f"member/{member}/return" for member in range(len(RATES))]
    return np.array([[row.extra.get(name, np.nan) for name in names] for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, list[np.ndarray]] = {"without": [], "population-based": []}
    rates = []
    print(describe_device())
    for seed in range(given.seeds):
        each = members(seed)
        ways = {
            "without": hm.Population(each),
            "population-based": hm.PopulationBasedTraining(each, interval=given.interval),
        }
        for name, population in ways.items():
            began = time.perf_counter()
            trainer = hm.Trainer(population, updates_per_dispatch=PART)
            returns = curve(trainer, given.steps, seed)
            found[name].append(returns)
            said = f"seed {seed}, {name}: {time.perf_counter() - began:.0f} s with compilation"
            for share in SHARES:
                row = returns[round(share * len(returns)) - 1]
                said += f"; at {share:.0%} best {np.nanmax(row):.0f}, mean {np.nanmean(row):.0f}"
            print(said, flush=True)
        rates.append(np.asarray(trainer.state.tournament.settings["learning_rate"]).tolist())
        print("   learning rates at the end:", " ".join(f"{rate:.2g}" for rate in rates[-1]))
    for name, curves in found.items():
        for share in SHARES:
            rows = [returns[round(share * len(returns)) - 1] for returns in curves]
            best = [float(np.nanmax(row)) for row in rows]
            mean = [float(np.nanmean(row)) for row in rows]
            print(f"{name}, {share:.0%} of the steps: best {np.mean(best):.0f} "
                  f"({min(best):.0f} to {max(best):.0f}), mean of the members {np.mean(mean):.0f} "
                  f"({min(mean):.0f} to {max(mean):.0f})")  # fmt: skip
    if given.json is not None:
        curves_of = {name: [each.tolist() for each in curves] for name, curves in found.items()}
        given.json.write_text(json.dumps({"returns": curves_of, "rates": rates}))


if __name__ == "__main__":
    main()
