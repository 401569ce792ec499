"""Trains the shipped agent further for points, in a given time, on an accelerator.

    python benchmarks/points.py --out FOLDER                       # on the machine with it
    python benchmarks/points.py --out FOLDER --small               # a rehearsal on a CPU

The learning rate falls to 0 at the last step, so the number of steps must be known before. A short
training compiles the program and measures its speed; the long one finds the program in the
compilation cache, and has as many steps as the remaining time allows. It saves every two minutes
and stops at the time limit, so a machine that vanishes costs two minutes. FOLDER gets both run
folders; `python benchmarks/ladder.py` or `hackmatrix-rl eval FOLDER/long` measure the result
elsewhere.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETTINGS: Mapping[str, Any] = {
    **{"league": "original", "observation": "tactical", "width": 192, "max_steps": 3000},
    **{"without_undo_share": 0.5, "algorithm": "ppo", "teacher_kl": 0, "target_kl": 0.03},
    **{"aux_coefficient": 0.05, "aux_every": 2, "aux_victory": True, "critic_warmup_timesteps": 0},
    "reward": "score_gain=40,data_siphon=0,kills=0,distance_shaping=0",
    **{"learning_rate": "linear:0.001:0", "ent_coef": "linear:0.001:0.0003", "gamma": 0.9998},
    # More games give more minibatches, not larger ones.
    **{"num_envs": 65_536, "num_steps": 32, "minibatch_size": 32_768, "precision": "bf16"},
}
SMALL: Mapping[str, Any] = {
    **{"num_envs": 64, "num_steps": 4, "minibatch_size": 128, "precision": "f32"},
    **{"updates_per_dispatch": 2, "history": 4},
}
MINUTES = 8.0
SAVING = 15.0
"""Seconds between the end of the training and the time limit: it saves."""
MARGIN = 0.95
"""The share of the steps that the measured speed allows: unfinished, the rate is not at 0."""
DISPATCHES = 6
"""Lines of metrics of the short training; the first ones are slower, so the last half counts."""


def train(folder: Path, settings: Mapping[str, Any], seconds: float) -> int:
    """Trains into a run folder, and stops it cleanly at a time limit. Returns the exit status."""
    recipe = folder.with_suffix(".toml")
    recipe.write_text("".join(f"{name} = {json.dumps(each)}\n" for name, each in settings.items()))
    command = [sys.executable, "-m", "hackmatrix_rl", "train", "--config", str(recipe)]
    saves = ["--save-interval-minutes", "2", "--eval-episodes", "0"]
    process = subprocess.Popen([*command, "--run-dir", str(folder), *saves])
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        return process.wait(60)


def rows(folder: Path) -> list[dict[str, float]]:
    """The metrics that a run logged."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "steps_per_second" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder for the runs")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"default: {MINUTES:g}")
    parser.add_argument("--init", default="pretrained@3/original", help="whose weights it has")
    parser.add_argument("--small", action="store_true", help="a rehearsal, with tiny sizes")
    given = parser.parse_args()
    began = time.monotonic()
    given.out.mkdir(parents=True)
    folder = given.out.absolute()
    settings = {**SETTINGS, "init": given.init, **(SMALL if given.small else {})}
    each = settings["num_envs"] * settings["num_steps"]

    def left() -> float:
        return began + 60 * given.minutes - time.monotonic()

    short = {"total_timesteps": DISPATCHES * each * settings.get("updates_per_dispatch", 1)}
    if status := train(folder / "short", settings | short, left()):
        sys.exit(f"The short training ended with status {status}.")
    measured = rows(folder / "short")
    speed = statistics.median(row["steps_per_second"] for row in measured[len(measured) // 2 :])
    starting = time.monotonic() - began - measured[-1]["env_steps"] / speed
    total = round(MARGIN * speed * (left() - starting - SAVING) / each) * each
    print(f"{speed:,.0f} steps/s; {total:,} steps in {left():.0f} s", flush=True)
    if total <= 0:
        sys.exit(f"--minutes {given.minutes:g}: starting alone takes {starting:.0f} s")
    status = train(folder / "long", settings | {"total_timesteps": total}, left())
    reached = rows(folder / "long")[-1]
    print(f"status {status}, {reached['env_steps']:,.0f} of {total:,} steps", flush=True)


if __name__ == "__main__":
    main()
