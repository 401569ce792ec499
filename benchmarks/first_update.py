"""Seconds until a training shows its first update, and until that of its second stage.

    python benchmarks/first_update.py [--beside CHECKOUT] [--total-timesteps 100000] [--json FILE]

It runs `hackmatrix-rl train`, with an empty compilation cache and again with the programs of that
start. Another checkout of the package runs at the same time, so that a busy machine slows both:
compare ratios. `CPU` is the time of a start on all cores, with everything that it computed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

COMMAND = """
import os, sys
from hackmatrix_rl.cli import main
try:
    main(sys.argv[1:])
finally:
    print("CPU", sum(os.times()[:2]), flush=True)
"""
STAGE = "the next stage"


def start(checkout: Path, cache: Path, steps: int, found: dict[str, float]) -> None:
    """One training; fills in its seconds by part."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "PYTHONUNBUFFERED": "1",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
    with tempfile.TemporaryDirectory() as folder:
        short = ("--total-timesteps", str(steps), "--eval-episodes", "0")
        began, stage = time.perf_counter(), "first stage"
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "train", *short, "--run-dir", f"{folder}/run"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,  # Python would import the package from here
        )
        assert process.stdout is not None
        for line in process.stdout:
            seconds = time.perf_counter() - began
            if STAGE in line:
                stage = "second stage"
                found["between stages"] = seconds - found["last update"]
            elif compiled := re.match(r"compiled in ([\d.]+) s", line):
                found[f"{stage} waits for its program"] = float(compiled[1])
            elif "steps/s" in line:
                found.setdefault(f"{stage}, first update", seconds)
                found["last update"] = seconds
            elif line.startswith("CPU "):
                found["CPU"] = float(line.split()[1])
        assert process.wait() == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, help="another checkout, measured at the same time")
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    checkouts = {"here": Path(__file__).parents[1]}
    if options.beside is not None:
        checkouts["beside"] = options.beside.resolve()
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as caches:
        for kind in ("cold", "warm"):
            found = results[kind] = {name: {} for name in checkouts}
            starts = [
                Thread(
                    target=start,
                    args=(path, Path(caches, name), options.total_timesteps, found[name]),
                )
                for name, path in checkouts.items()
            ]
            for each in starts:
                each.start()
            for each in starts:
                each.join()
            for part in found["here"]:
                times = "   ".join(f"{name} {found[name][part]:7.1f}" for name in checkouts)
                print(f"{kind}  {part:38s} {times}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
