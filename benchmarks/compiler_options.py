"""The gain of the CPU compiler's options, measured in turns in one process.

    python benchmarks/compiler_options.py [--games 1024] [--repeats 9] [--json FILE]
    python benchmarks/compiler_options.py --check [--games 1 8 64]

The first command measures random play of the full game. The second trains a few updates with the
options for this version of jaxlib, in one process for each number of games, because a compiler
failure ends the process. A version that passes may be added to `CPU_OPTIONS`
(`hackmatrix_rl/system/_compatibility.py`).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import jax

TUNED = {"xla_backend_optimization_level": "1", "xla_disable_hlo_passes": "tree_reduction_rewriter"}
OPTIONS = {"XLA's own": {}, **{name: {name: value} for name, value in TUNED.items()}, "both": TUNED}

# Runs in its own process.
TRAINING = """
import sys, jax, hackmatrix_rl as hm
games, devices = map(int, sys.argv[1:])
env = hm.HackMatrix(hm.GameConfig(), max_steps=200)
policy = hm.build_network("cells", env.spec, width=16, depth=None, key=jax.random.key(0))
ppo = hm.PPO(env, policy, num_envs=games, num_steps=16, num_minibatches=1,
             mesh=hm.mesh(f"data={devices}"))
trainer = hm.Trainer(ppo)
for metrics in trainer.train(games * 32, key=jax.random.key(1)):
    pass
"""


def check(games: list[int]) -> int:
    """Trains on one device and, if the games divide, on eight; returns the number of failures."""
    failures = 0
    for number, devices in [(n, d) for n in games for d in (1, 8) if n % d == 0]:
        flags = f"--xla_force_host_platform_device_count={devices}"
        done = subprocess.run(
            [sys.executable, "-c", TRAINING, str(number), str(devices)],
            env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
            stderr=subprocess.DEVNULL,
            check=False,
        )
        failures += done.returncode != 0
        print(f"{number} games on {devices} devices: exit status {done.returncode}", flush=True)
    return failures


def measure(games: int, repeats: int) -> dict[str, object]:
    """Random play compiled with each choice of options, timed in turns."""
    from hackmatrix_rl.algorithms.ppo import PPOConfig
    from hackmatrix_rl.cli.bench._environment_speed import RandomPlay, in_turns
    from hackmatrix_rl.env import env_keys
    from hackmatrix_rl.training.sharding import mesh

    environment = PPOConfig().environment()
    state, timestep = jax.jit(environment.reset)(env_keys(jax.random.key(0), games))
    plays = {
        name: RandomPlay(environment, state, timestep.mask, mesh=mesh("auto"), options=options)
        for name, options in OPTIONS.items()
    }
    speeds = in_turns(plays, steps=max(16, 200_000 // games), repeats=repeats)
    own = speeds["XLA's own"]
    rows = [
        {"options": name, "ratio": statistics.median(speed.ratios_to(own)), **speed.as_dict()}
        for name, speed in speeds.items()
    ]
    return {"num_envs": games, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="train with the options of this version"
    )
    parser.add_argument("--games", type=int, nargs="+", default=None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    if options.check:
        sys.exit(check(options.games or [1, 8, 64]))
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    found = [measure(games, options.repeats) for games in options.games or [1024]]
    for each in found:
        for row in each["rows"]:
            print(f"{each['num_envs']:,} games, {row['options']}: "
                  f"{row['steps_per_second']['median']:,.0f} steps/s, "
                  f"{row['ratio']:.3f} of XLA's own, "
                  f"compiled in {row['compile_seconds']:.1f} s")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
