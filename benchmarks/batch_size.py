"""How to scale PPO to a batch 16 times as large: HackMatrix, from random weights.

    python benchmarks/batch_size.py [--steps 4194304] [--seeds 3] [--only NAME ...] [--json FILE]

Each way is one program: the learning rates of `--rates` with all seeds, as in `train --vary
--seeds`. Either the size of the minibatches grows with the batch, or their number.
Seconds are CPU time of one device. `--json` stores results, and a second start continues.
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
from hackmatrix_rl.training import Linear

# Games, steps, minibatches.
WAYS = {
    "256 x 128, 4 minibatches": (256, 128, 4),
    "1,024 x 128, 4 minibatches": (1024, 128, 4),
    "1,024 x 128, 16 minibatches": (1024, 128, 16),
    "2,048 x 256, 4 minibatches": (2048, 256, 4),
    "2,048 x 256, 16 minibatches": (2048, 256, 16),
    "2,048 x 256, 64 minibatches": (2048, 256, 64),
}
RATES = (3e-4, 1e-3, 3e-3)
METRICS = ("return", "score", "entropy", "approx_kl")


def members(way: str, given: argparse.Namespace) -> list[hm.PPO]:
    """PPO with each learning rate and seed."""
    num_envs, num_steps, num_minibatches = WAYS[way]
    environment = hm.HackMatrix()
    return [
        hm.PPO(
            environment,
            hm.MLPActorCritic(environment.spec, width=given.width, key=jax.random.key(seed)),
            num_envs=num_envs,
            num_steps=num_steps,
            num_minibatches=num_minibatches,
            update_epochs=given.epochs,
            learning_rate=Linear(rate, 0.0, over=given.steps),
        )
        for rate in given.rates
        for seed in range(given.seeds)
    ]


def train(way: str, given: argparse.Namespace) -> dict[str, Any]:
    """The metrics of all members after each update."""
    each = members(way, given)
    # Its own draws for each seed, the same for each rate.
    seeds = [number % given.seeds for number in range(len(each))]
    trainer = hm.Trainer(hm.Population(each))
    trainer.start(jax.numpy.stack([jax.random.key(1000 + seed) for seed in seeds]))
    compiling = trainer.compile()
    num_envs, num_steps, _ = WAYS[way]
    rows: list[dict[str, Any]] = []
    began = time.process_time()
    for _ in range(given.steps // (num_envs * num_steps)):
        extra = trainer.dispatch(1).extra
        row = {
            name: [extra.get(f"member/{number}/{name}") for number in range(len(each))]
            for name in METRICS
        }
        rows.append({"seconds": time.process_time() - began, **row})
    return {"compiling": compiling, "batch": num_envs * num_steps, "rows": rows}


def at(found: dict[str, Any], name: str, given: argparse.Namespace, last: int) -> np.ndarray:
    """A metric as `[rates, seeds]`: its mean over a tenth of the steps, which end at an update."""
    part = max(1, round(given.steps / 10 / found["batch"]))
    values = np.array([row[name] for row in found["rows"][max(0, last - part) : last]], float)
    return np.nanmean(values, axis=0).reshape(len(given.rates), given.seeds)


def cells(found: dict[str, Any], given: argparse.Namespace, seconds: float) -> list[str]:
    """For the rate with the highest return: return and entropy at the end, then at some time."""
    ends = len(found["rows"])
    done = [row["seconds"] for row in found["rows"]]
    best = int(at(found, "return", given, ends).mean(axis=1).argmax())
    in_time = max(1, int(np.searchsorted(done, seconds, side="right")))
    told = [f"{given.rates[best]:g}"]
    for last in (ends, min(ends, in_time)):
        returns = at(found, "return", given, last)[best]
        entropy = at(found, "entropy", given, last)[best].mean()
        told.append(f"{returns.mean():.2f} ({returns.min():.2f} to {returns.max():.2f})")
        told.append(f"{entropy:.2f}")
    told.append(f"{len(given.rates) * given.seeds * given.steps / done[-1]:,.0f}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--steps", type=int, default=2**22, help="steps of each training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--width", type=int, default=256, help="width of the network's two layers")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write the curves here")
    given = parser.parse_args()
    print(describe_device(), flush=True)
    known = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    for way in given.only:
        if way not in known:
            known[way] = train(way, given)
            if given.json:
                given.json.write_text(json.dumps(known) + "\n")
            print(f"{way}: {known[way]['rows'][-1]['seconds']:.0f} s", flush=True)
    least = min(found["rows"][-1]["seconds"] for found in known.values())
    print(f"| way | rate | return | entropy | return at {least:.0f} s | entropy | steps/s |")
    print("|---|---|---|---|---|---|---|")
    for way, found in known.items():
        print(f"| {way} | {' | '.join(cells(found, given, least))} |")
        for rate, returns in zip(
            given.rates, at(found, "return", given, len(found["rows"])), strict=True
        ):
            print(f"    {rate:g}: {' '.join(f'{each:.2f}' for each in returns)}")


if __name__ == "__main__":
    main()
