"""Trains variants of a setting for equal steps from the same start: the table of learning.md.

    python benchmarks/choices.py value --init runs/imitated [--steps 2_000_000] [--seeds 0 1 2]
    python benchmarks/choices.py network --steps 300_000

Each variant is trained once for each seed, and evaluated on separate games: by `hackmatrix-rl
train` from one run, or, for networks, by `hackmatrix-rl imitate` from random weights. Results are
written to benchmarks/learning/choices.json after each training, and a measurement that is stopped
continues from there. Without a choice, the table is printed.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "learning" / "choices.json"
NO_FARMING = "victory=0,score_gain=0,data_siphon=0,kills=0,distance_shaping=0"
BASE = (
    *("--aux-victory", "--aux-coefficient", "0.05", "--aux-every", "2", "--ent-coef", "0.003"),
    *("--learning-rate", "linear:0.0005:0", "--target-kl", "0.03"),
)
USUAL = ("--gamma", "linear:0.997:0.9993", "--reward", NO_FARMING)
FEW_GAMES = (*USUAL, "--num-envs", "256")
CELLS = ("--network", "cells", "--width", "192")
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "value": {
        "squared errors, standard": USUAL,
        "squared errors, compressed": (*USUAL, "--value-scale", "compressed"),
        "HL-Gauss": (*USUAL, "--value-head", "hl-gauss"),
        "two-hot": (*USUAL, "--value-head", "two-hot"),
    },
    "frontier starts": {
        "none": USUAL,
        "a quarter of the games": (*USUAL, "--frontier-share", "0.25"),
    },
    "starts": {
        "new games alone": FEW_GAMES,
        "a quarter at milestones": (*FEW_GAMES, "--frontier-share", "0.25"),
        "a quarter by points left": (
            *(*FEW_GAMES, "--frontier-share", "0.25", "--frontier", "points"),
        ),
        "a quarter in stages 4 to 8": (
            *(*FEW_GAMES, "--frontier-share", "0.25", "--start-stages", "4:8"),
        ),
    },
    "network": {
        "cells": CELLS,
        "resnet": ("--network", "resnet"),
        "transformer": ("--network", "transformer"),
    },
    "observation": {"tactical": CELLS, "compact": (*CELLS, "--observation", "compact")},
    "who plays": {
        "the teacher, then the student": CELLS,
        "the teacher": (*CELLS, "--teacher-games", "1"),
    },
    "symmetries": {"turned and mirrored": CELLS, "as played": (*CELLS, "--no-symmetries")},
    "program weight": {"1": ("--program-weight", "1"), "3": ("--program-weight", "3")},
    "KL to the start": {"none": USUAL, "0.2, fading": (*USUAL, "--teacher-kl", "linear:0.2:0@0.5")},
    "critic first": {"300,000 steps": USUAL, "none": (*USUAL, "--critic-warmup-timesteps", "0")},
    "entropy": {
        "0.003": USUAL,
        "0.01": (*USUAL, "--ent-coef", "0.01"),
        "0": (*USUAL, "--ent-coef", "0"),
    },
    "victory head": {
        "learns the probability of winning": USUAL,
        "none": (*USUAL, "--no-aux-victory"),
    },
    "reward": {
        "nothing that UNDO repeats": USUAL,
        "the game's, without victory and score": (
            *("--gamma", "linear:0.997:0.9993", "--reward", "victory=0,score_gain=0"),
        ),
        # A weight of 1 for one term: without the flag, `--init` has other weights on a CPU.
        "the game's": ("--gamma", "linear:0.997:0.9993", "--reward", "victory=1"),
    },
    "gamma": {
        "0.99": ("--gamma", "0.99", "--reward", NO_FARMING),
        "0.997 to 0.9993": USUAL,
        "0.9996": ("--gamma", "0.9996", "--reward", NO_FARMING),
    },
}

IMITATED = ("network", "observation", "who plays", "symmetries", "program weight")
"""Choices that are measured by imitation."""
COLUMNS = ("siphons", "programs", "undos", "accuracy", "accuracy_programs", "accuracy_siphons")


def trained(
    choice: str, flags: tuple[str, ...], given: argparse.Namespace, seed: int
) -> dict[str, Any]:
    """How often a training wins, and what it does in a game at its end."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        quiet = os.environ | {"HACKMATRIX_RL_FLAGS": ""}
        command = (
            *("hackmatrix-rl", *start(choice, given), "--league", given.league, *flags),
            *("--seed", str(seed), "--total-timesteps", str(given.steps), "--cpu-devices", "1"),
            *("--eval-episodes", str(given.games), "--run-dir", run),
        )
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=quiet)
        rows = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
        summary = Path(run, "summary.json")
        found = json.loads(summary.read_text())["trained"] if given.games else {}
    last = [row for row in rows[-10:] if row["episodes"]]
    weights = [row["episodes"] for row in last]
    numbers = {
        name: float(np.average([row[name] for row in last], weights=weights))
        for name in ("won", "return", *COLUMNS)
        if name in last[-1]
    }
    if given.games:
        numbers |= {"won": found["win_rate"]["mean"], "return": found["return"]["mean"]}
    return {
        "seed": seed,
        "steps": given.steps,
        "games": given.games or sum(weights),
        **numbers,
        "seconds": round(sum(row["seconds"] for row in rows)),
    }


def start(choice: str, given: argparse.Namespace) -> tuple[str, ...]:
    """The command of a training, without what its variant adds."""
    if choice in IMITATED:
        return ("imitate", "--teacher", "expert")
    warmup = min(300_000, given.steps // 5)
    critic_first = ("--critic-warmup-timesteps", str(warmup))
    return ("train", "--algorithm", "ppo", "--init", given.init, *BASE, *critic_first)


def line(choice: str, variant: str, name: str, runs: list[dict[str, Any]]) -> str:
    """A line of the table: the mean of the seeds, and each of them."""
    won = [100 * run["won"] for run in runs]
    each = ", ".join(f"{rate:.1f}" for rate in won)
    means = " | ".join(
        f"{np.mean([run[name] for run in runs]):.3g}" for name in COLUMNS if name in runs[0]
    )
    steps = f"{runs[0]['steps'] / 1e6:g} M"
    origin = name.split()[-1]
    return f"| {choice} | {variant} | {origin} | {np.mean(won):.1f} | {each} | {steps} | {means} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("choices", nargs="*", metavar="CHOICE", help=f"of {', '.join(CHOICES)}")
    parser.add_argument("--init", help="the run to start from")
    parser.add_argument("--league", default="original")
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--games", type=int, default=1000, help="0: those of the last updates")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    given = parser.parse_args()
    if unknown := set(given.choices) - CHOICES.keys():
        parser.error(f"{min(unknown)}: there is {', '.join(CHOICES)}")
    if set(given.choices) - set(IMITATED) and given.init is None:
        parser.error("--init RUN: all variants start from one run")
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for choice in given.choices:
        for seed in given.seeds:
            for variant, flags in CHOICES[choice].items():
                # What two choices have in common is trained once.
                origin = "random" if choice in IMITATED else Path(given.init).name
                name = " ".join((*flags, "|", given.league, str(given.steps), origin))
                runs = found.setdefault(name, [])
                if seed not in [run["seed"] for run in runs]:
                    runs.append(trained(choice, flags, given, seed))
                    FILE.write_text(json.dumps(found, indent=1) + "\n")
                print(line(choice, variant, name, runs), flush=True)
    if not given.choices:
        for choice, variants in CHOICES.items():
            for variant, flags in variants.items():
                for name, runs in found.items():
                    if name.startswith(" ".join((*flags, "|"))):
                        print(line(choice, variant, name, runs))


if __name__ == "__main__":
    main()
