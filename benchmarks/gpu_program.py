"""The compiled program of an environment step for an H100, on a machine without one.

    pip install '.[cuda]' && python benchmarks/gpu_program.py [--sizes 4096 65536] [--json FILE]

XLA compiles for the description of a GPU. Nothing runs and kernels are not tuned, so this gives no
speeds: only the number of generated kernels in a step (`fusions`), of loops and of copies, and the
memory of the program.
"""

import argparse
import json
import os
import time
from pathlib import Path

# An H100 with 80 GB, as XLA describes its devices (`stream_executor/device_description.proto`).
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84978434048
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 1 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


COUNTED = ("instructions", "fusions", "loops", "copies")


def main() -> None:
    """Compiles for each size and prints a row for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 65536])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    # The plugin only compiles, so it needs neither a driver nor CUDA's libraries.
    os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}

    # Imported after that is set, because JAX reads it at import.
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import NamedSharding
    from program_counts import copies_of, program_counts, updated_in_place

    from hackmatrix_rl.algorithms.ppo import PPOConfig
    from hackmatrix_rl.bench._environment_speed import RandomPlayState, play_program
    from hackmatrix_rl.env import env_keys
    from hackmatrix_rl.training.compiled import program_bytes
    from hackmatrix_rl.training.sharding import BY_ENVIRONMENT, REPLICATED, mesh

    try:
        gpu = topologies.get_topology_desc(
            platform="cuda", topology_name="h100", target_config=H100, topology="1x1x1"
        )
    except NotImplementedError:
        parser.error("JAX's CUDA plugin is not installed. Use pip install '.[cuda]'.")
    devices = mesh("data=1", gpu.devices)
    environment = PPOConfig().environment()

    def shapes(tree, spec):
        sharding = NamedSharding(devices, spec)
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree
        )

    rows = []
    print("  games  instructions  fusions  loops  copies  of the history  in place  MiB"
          "  compile s")  # fmt: skip
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
        program = lowered.compile(compiler_options={"xla_gpu_autotune_level": 0})
        seconds = time.perf_counter() - began
        text = program.as_text()
        ring = max(jax.tree.leaves(state), key=lambda leaf: leaf.size * leaf.dtype.itemsize)
        counts = program_counts(program)
        row = {
            "num_envs": size,
            # Programs for a GPU have no figures for bytes read and written.
            **{name: getattr(counts, name) for name in COUNTED},
            "copies_of_history": copies_of(text, ring),
            "history_in_place": updated_in_place(text, ring),
            "memory": program_bytes(program),
            "compile_seconds": seconds,
        }
        rows.append(row)
        print(
            f"{size:7,d}  {counts.instructions:12,d}  {counts.fusions:7,d}  {counts.loops:5,d}  "
            f"{counts.copies:6,d}  {row['copies_of_history']:14d}  {row['history_in_place']!s:>8}  "
            f"{row['memory'] / 2**20:5,.0f}  {seconds:8.1f}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
