"""The compiled program of an environment step for an H100, on a machine without one.

    pip install '.[gpu-plan]' && python benchmarks/gpu_program.py [--sizes 4096 65536] [--json FILE]

XLA compiles for the description of a GPU. Nothing runs and kernels are not tuned, so there are no
speeds: only the number of kernels that a step launches, the number of loops whose condition the
host reads after each iteration, and counts of the program's instructions. A loop without a fixed
number of iterations counts as one.
"""

import argparse
import json
import os
import time
from pathlib import Path

COUNTED = ("instructions", "fusions", "loops", "copies")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 65536])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"

    # Imported after that is set, because JAX reads it at import.
    import jax
    import numpy as np
    from jax.sharding import NamedSharding
    from program_counts import copies_of, program_counts, updated_in_place

    from hackmatrix_rl.algorithms.ppo import PPOConfig
    from hackmatrix_rl.cli.bench._environment_speed import RandomPlayState, play_program
    from hackmatrix_rl.env import env_keys
    from hackmatrix_rl.system import target
    from hackmatrix_rl.system.errors import ConfigError
    from hackmatrix_rl.training import compiler_options
    from hackmatrix_rl.training.compiled import launches, program_bytes
    from hackmatrix_rl.training.sharding import BY_ENVIRONMENT, REPLICATED, mesh

    try:
        devices = mesh("data=1", target("h100").devices)
    except ConfigError as error:
        parser.error(str(error))
    environment = PPOConfig().environment()

    def shapes(tree, spec):
        sharding = NamedSharding(devices, spec)
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree
        )

    rows = []
    print("  games  kernels  asking loops  instructions  fusions  loops  copies  of the history"
          "  in place  MiB  compile s")  # fmt: skip
    for size in options.sizes:
        keys = jax.eval_shape(lambda size=size: env_keys(jax.random.key(0), size))
        state, timestep = jax.eval_shape(environment.reset, keys)
        count = jax.ShapeDtypeStruct((1,), np.int32)
        tally = RandomPlayState(jax.ShapeDtypeStruct((1,), np.uint32), count, count)
        number = jax.ShapeDtypeStruct((), np.int32)
        given = shapes((state, timestep.mask, tally, keys), BY_ENVIRONMENT)
        began = time.perf_counter()
        lowered = play_program(environment, devices).lower(
            *given, *shapes((number, number), REPLICATED)
        )
        program = lowered.compile(compiler_options(devices))
        seconds = time.perf_counter() - began
        text = program.as_text()
        ring = max(jax.tree.leaves(state), key=lambda leaf: leaf.size * leaf.dtype.itemsize)
        counts = program_counts(program)
        started = launches(text)
        row = {
            "num_envs": size,
            "kernels": started.kernels,
            "asking_loops": started.asking_loops,
            # Programs for a GPU have no figures for bytes read and written.
            **{name: getattr(counts, name) for name in COUNTED},
            "copies_of_history": copies_of(text, ring),
            "history_in_place": updated_in_place(text, ring),
            "memory": program_bytes(program),
            "compile_seconds": seconds,
        }
        rows.append(row)
        print(
            f"{size:7,d}  {started.kernels:7,d}  {started.asking_loops:12d}  "
            f"{counts.instructions:12,d}  {counts.fusions:7,d}  {counts.loops:5,d}  "
            f"{counts.copies:6,d}  {row['copies_of_history']:14d}  {row['history_in_place']!s:>8}  "
            f"{row['memory'] / 2**20:5,.0f}  {seconds:8.1f}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
