"""How fast the whole game is played, over the number of games side by side.

    python benchmarks/environment.py [--sizes 256 1024 4096] [--devices 2] [--json FILE]

Random legal play with resets under training's capacities. Observation, mask and reward of
every step go into a checksum that is returned; compilation is measured apart. On a CPU, the
games are split over `--devices` devices of one core each.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import jax


def main() -> None:
    """Measures each size and prints a row for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[256, 1024, 2048, 4096, 8192, 16384]
    )
    parser.add_argument(
        "--devices", type=int, default=os.cpu_count(), help="on a CPU; default: cores"
    )
    parser.add_argument("--steps", type=int, default=64, help="of each game in a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each size")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)

    # After the number of devices is set: these ask for it.
    from hackmatrix_rl.env import HackMatrix, env_keys
    from hackmatrix_rl.training.benchmark import peak_memory
    from hackmatrix_rl.training.environment_speed import environment_speed
    from hackmatrix_rl.training.mesh import mesh

    environment, devices = HackMatrix(), mesh("auto")
    print(f"{jax.devices()[0].device_kind} x {jax.device_count()}, jax {jax.__version__}, "
          f"python {sys.version.split()[0]}, {environment.config}")  # fmt: skip
    print("  games   steps/s (median, min, max)       ns/step  compile s  dropped in games")
    rows = []
    for size in options.sizes:
        state, timestep = jax.jit(environment.reset)(env_keys(jax.random.key(0), size))
        speed, tally = environment_speed(
            environment,
            state,
            timestep.mask,
            steps=options.steps,
            repeats=options.repeats,
            mesh=devices,
        )
        rows.append(
            {
                "num_envs": size,
                **speed.as_dict(),
                "checksum": int(tally.checksum),
                "dropped_spawns": int(tally.dropped),
                "episodes": int(tally.episodes),
                "peak_memory_bytes": peak_memory(),
            }
        )
        print(
            f"{size:7,d}  {speed.median:9,.0f} {speed.smallest:9,.0f} {speed.largest:9,.0f}"
            f"  {1e9 / speed.median:9,.0f}  {speed.compile_seconds:9.1f}"
            f"  {int(tally.dropped):7,d} in {int(tally.episodes):,d}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
