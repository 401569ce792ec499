"""The speed of the full game by number of games.

    python benchmarks/environment.py [--sizes 256 1024 4096] [--devices 2] [--json FILE]

Random legal play with resets, with the capacities of training. Observation, mask and reward of
every step enter a checksum that the program returns. Compilation is measured separately. On a CPU,
the games are split over `--devices` devices of one core each.

Each size has two rows: games from the first stage on, and games that start at `--stage`, with more
enemies. Random play soon loses there and continues in stage 1. So late games are started again for
each run, which is short and begins when the enemies have arrived. `restarted` is the percentage of
games that ended in it.
"""

import argparse
import itertools
import json
import os
import sys
from pathlib import Path

import jax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384])
    parser.add_argument(
        "--devices", type=int, default=os.cpu_count(), help="devices of a CPU; default: cores"
    )
    parser.add_argument("--stage", type=int, default=6, help="first stage of late games, 2 to 8")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each size")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    if not 2 <= options.stage <= 8:
        parser.error(f"--stage {options.stage}: late games start at stage 2 to 8.")
    for size in options.sizes:
        if size < 1 or size % options.devices:
            parser.error(f"--sizes {size} does not divide over --devices {options.devices}.")
    jax.config.update("jax_num_cpu_devices", options.devices)

    # Imported after the number of devices is set, because these modules ask for it.
    from hackmatrix_rl.algorithms.ppo import PPOConfig
    from hackmatrix_rl.cli.bench._full_benchmark import SpeedCurve
    from hackmatrix_rl.system import peak_memory
    from hackmatrix_rl.training.sharding import mesh

    environment = PPOConfig().environment()
    print(f"{jax.devices()[0].device_kind} x {jax.device_count()}, jax {jax.__version__}, "
          f"python {sys.version.split()[0]}, {environment.config}")  # fmt: skip
    print("  games  stage  steps/s (median, min, max)      ns/step  compile s  MiB a device"
          "  restarted  dropped in games")  # fmt: skip
    rows = []
    curve = SpeedCurve(
        environment,
        max(options.sizes),
        mesh=mesh("auto"),
        repeats=options.repeats,
        late_stage=options.stage,
    )
    for part in itertools.chain.from_iterable(map(curve.parts, options.sizes)):
        rows.append(part.as_dict() | {"peak_memory_bytes": peak_memory()})
        speed, found = part.speed, part.figures
        restarted = found["episodes"] / (part.num_envs * options.repeats)
        print(
            f"{part.num_envs:7,d}  {found['stage']:5d}  {speed.median:9,.0f} "
            f"{speed.smallest:9,.0f} {speed.largest:9,.0f}  {1e9 / speed.median:9,.0f}  "
            f"{speed.compile_seconds:9.1f}  {(part.memory or 0) / 2**20:12.1f}  "
            f"{100 * restarted:8.0f}%  {found['dropped_spawns']:7,d} in {found['episodes']:,d}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
