"""Several trainings in one program beside one after another: PPO on CartPole, a network of 64 x 64.

    python benchmarks/populations.py [--members 1 8 32] [--updates 20] [--repeats 5] [--json FILE]

Both ways train by the same settings, those of `train --env cartpole`, and are measured in turns in
this process on one device. One after another means: one program, compiled once, that each seed runs
in its turn. Compile time is apart.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.system import describe_device

SIZES = {"num_envs": 16, "num_steps": 64, "num_minibatches": 4, "update_epochs": 4}


def algorithm(seed: int) -> hm.PPO:
    """PPO with a network of its own."""
    environment = hm.CartPole()
    key = jax.random.key(seed)
    policy = hm.MLPActorCritic(environment.spec, width=64, depth=2, key=key)
    return hm.PPO(environment, policy, **SIZES)


def measure(members: int, updates: int, repeats: int) -> dict[str, Any]:
    """Environment steps a second, over all trainings, in both ways."""
    keys = jax.vmap(jax.random.key)(jnp.arange(members))
    together = hm.Trainer(hm.Population([algorithm(seed) for seed in range(members)]))
    alone = hm.Trainer(algorithm(0))
    together.start(keys)
    alone.start(keys[0])
    found: dict[str, Any] = {
        "members": members,
        "compile_together": together.compile(),
        "compile_alone": alone.compile(),
    }
    steps = members * updates * alone.batch_size

    def at_once() -> None:
        together.dispatch(updates)

    def one_after_another() -> None:
        for _ in range(members):
            alone.dispatch(updates)

    speeds: dict[str, list[float]] = {"together": [], "alone": []}
    for number in range(repeats + 1):
        for name, train in (("together", at_once), ("alone", one_after_another)):
            began = time.perf_counter()
            train()
            if number:  # the first one touches memory
                speeds[name].append(steps / (time.perf_counter() - began))
    return {**found, **speeds}


def main() -> None:
    """Measures each number of trainings, and prints a row for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--updates", type=int, default=20, help="of each training in a run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    print(f"{describe_device()}: steps/s over all trainings, median (least to most)")
    print("members  together                          one after another                 ratio")
    rows = [measure(each, options.updates, options.repeats) for each in options.members]
    for row in rows:
        told = [
            f"{np.median(row[name]):11,.0f} ({min(row[name]):,.0f} to {max(row[name]):,.0f})"
            for name in ("together", "alone")
        ]
        ratio = np.median(np.divide(row["together"], row["alone"]))
        compiled = f"compiled in {row['compile_together']:.1f} and {row['compile_alone']:.1f} s"
        print(f"{row['members']:7}  {told[0]:32}  {told[1]:32}  {ratio:.2f}  {compiled}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
