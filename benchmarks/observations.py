"""The cost of each observation: the environment's speed against the compact one, in turns.

    python benchmarks/observations.py [--games 1024] [--repeats 9] [--devices 1] [--json FILE]

Random legal play with resets, compiled as in training; all numbers of an observation enter a
checksum. The features of `tactical` are not included: PPO computes them once per step, when it
acts. `hackmatrix-rl bench` includes them.
"""

import argparse
import json
from pathlib import Path
from statistics import median

import jax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=9, help="runs of each observation")
    parser.add_argument("--devices", type=int, default=1, help="devices of a CPU")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    if given.games % given.devices:
        parser.error(f"--games {given.games} does not divide over --devices {given.devices}.")
    jax.config.update("jax_num_cpu_devices", given.devices)

    # Imported after the number of devices is set, because these modules ask for it.
    from hackmatrix_rl.algorithms.ppo import PPOConfig
    from hackmatrix_rl.cli.bench._benchmark import STEPS
    from hackmatrix_rl.cli.bench._environment_speed import RandomPlay, in_turns
    from hackmatrix_rl.env import env_keys
    from hackmatrix_rl.training.sharding import mesh

    plays = {}
    keys = env_keys(jax.random.key(0), given.games)
    for name in ("compact", "tactical"):
        environment = PPOConfig(observation=name).environment()
        state, timestep = jax.jit(environment.reset)(keys)
        plays[name] = RandomPlay(environment, state, timestep.mask, mesh=mesh("auto"), seed=0)
    speeds = in_turns(plays, steps=STEPS, repeats=given.repeats)
    found = {}
    for name, speed in speeds.items():
        ratios = speed.ratios_to(speeds["compact"])
        found[name] = speed.as_dict() | {"ratio": median(ratios), "ratios": ratios}
        print(
            f"{name:10} {speed.median:9,.0f} steps/s, {median(ratios):.3f} of compact "
            f"({min(ratios):.3f} to {max(ratios):.3f})"
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
