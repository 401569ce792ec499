"""The gain of the sparse first layer of `mlp` on a CPU: PPO with and without it, in turns.

    python benchmarks/first_layer.py [--games 1024] [--width 256] [--repeats 5] [--json FILE]

Both networks have the same weights. The dense one multiplies all features, as on an accelerator
(`hackmatrix_rl.agent.networks`). The weights are random, so most games are in the first two stages.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import jax

import hackmatrix_rl as hm

STEPS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each network")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()

    environment = hm.HackMatrix()
    key = jax.random.key(0)
    runs = {}
    for name in ("sparse", "dense"):
        spec = environment.spec if name == "sparse" else replace(environment.spec, split=None)
        policy = hm.MLPActorCritic(spec, width=given.width, key=key)
        ppo = hm.PPO(environment, policy, num_envs=given.games, num_steps=STEPS)
        trainer = hm.Trainer(ppo, updates_per_dispatch=1)
        endless = trainer.train(10**12, key=jax.random.key(1))
        next(endless)  # compiles
        runs[name] = endless
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeats):
        for name, endless in runs.items():
            start = perf_counter()
            next(endless)
            speeds[name].append(given.games * STEPS / (perf_counter() - start))
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    for name, found in speeds.items():
        print(f"{name:7}{median(found):10,.0f} steps/s")
    low, high = min(ratios), max(ratios)
    print(f"training, sparse / dense: {median(ratios):.2f} ({low:.2f} to {high:.2f})")
    if given.json:
        given.json.write_text(json.dumps(speeds | {"ratios": ratios}, indent=2) + "\n")


if __name__ == "__main__":
    main()
