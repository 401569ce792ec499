"""The memory of many games, and of a full training update.

    python benchmarks/footprint.py [--held 16384] [--games 2048 --steps 256] [--json FILE]

The games' states are counted from their shapes. The update is that of the CPU preset with the given
games and steps: the compiler's figure, and the peak memory of this process, which runs two
updates.
"""

import argparse
import json
import math
from pathlib import Path

import jax

from hackmatrix_rl.env import env_keys
from hackmatrix_rl.runs import compose, training_keys
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import cut_cpu
from hackmatrix_rl.system._usage import process_peak_bytes

GIB = 2**30


def held_bytes(environment, games: int) -> int:
    """Bytes of the states of some games with their histories."""
    state, _ = jax.eval_shape(environment.reset, env_keys(jax.random.key(0), games))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held", type=int, default=16384, help="games whose states are counted")
    parser.add_argument("--games", type=int, default=2048, help="games of the update")
    parser.add_argument("--steps", type=int, default=256, help="steps of each game in the update")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()

    config = make_config("cpu", {"num_envs": options.games, "num_steps": options.steps})
    if config.cpu_devices is not None:
        cut_cpu(config.cpu_devices)
    figures = {"held_bytes": held_bytes(config.environment(), options.held)}
    trainer = compose(config)
    trainer.start(training_keys(config))
    devices = trainer.mesh.size
    figures["compiled_bytes"] = (trainer.program_memory() or 0) * devices
    for _ in range(2):
        trainer.dispatch(1)
    figures["process_bytes"] = process_peak_bytes()
    held = figures["held_bytes"] / GIB
    print(f"{options.held:,} games with their histories: {held:.2f} GiB")
    print(f"an update of {options.games:,} games x {options.steps} steps on {devices} devices:")
    print(f"    the compiler's figure   {figures['compiled_bytes'] / GIB:.2f} GiB")
    print(f"    peak of this process    {figures['process_bytes'] / GIB:.2f} GiB")
    if options.json is not None:
        options.json.write_text(json.dumps({**vars(options), **figures}, default=str) + "\n")


if __name__ == "__main__":
    main()
