"""Several trainings in one program, against sequential ones and against rejax: PPO on CartPole.

    pip install --group peers
    python benchmarks/populations.py [--members 8 32 128] [--updates 20] [--repeats 5] [--json FILE]

All ways train two networks of 64 x 64 with the settings of `peers.py`, with 16 games of 64 steps,
and are measured in turns in this process on one device. "One after another" is one program,
compiled once and run for each seed. rejax maps its full training over the seeds; the number of
updates is a constant of its program. Compile time is separate. `--without-rejax` needs no other
package.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from peers import GAME, TwoTowers, our_ppo, rejax_ppo

import hackmatrix_rl as hm
from hackmatrix_rl.system import describe_device

NUM_ENVS, NUM_STEPS = 16, 64
Train = Callable[[], Any]


def algorithm(environment: hm.Environment, seed: int) -> hm.PPO:
    """PPO with a new network."""
    policy = TwoTowers(environment.spec, key=jax.random.key(seed))
    return our_ppo(environment, policy, num_envs=NUM_ENVS, num_steps=NUM_STEPS)


def ways(members: int, updates: int, *, with_rejax: bool) -> dict[str, tuple[Train, float]]:
    """Each way to train all members for some updates, and the seconds that it compiled."""
    environment = hm.from_gymnax(GAME)
    keys = jax.vmap(jax.random.key)(jnp.arange(members))
    each = [algorithm(environment, seed) for seed in range(members)]
    together, alone = hm.Trainer(hm.Population(each)), hm.Trainer(each[0])
    together.start(keys)
    alone.start(keys[0])
    found: dict[str, tuple[Train, float]] = {
        "together": (lambda: together.dispatch(updates), together.compile()),
        "one after another": (
            lambda: [alone.dispatch(updates) for _ in range(members)],
            alone.compile(),
        ),
    }
    if with_rejax:
        steps = updates * NUM_ENVS * NUM_STEPS
        other = rejax_ppo(steps, num_envs=NUM_ENVS, num_steps=NUM_STEPS)
        states = jax.jit(jax.vmap(other.init_state))(keys)

        def train(states: Any) -> Any:
            return jax.vmap(lambda state: other.train(train_state=state)[0])(states)

        began = time.perf_counter()
        program = jax.jit(train).lower(states).compile()
        found["rejax"] = (lambda: program(states), time.perf_counter() - began)
    return found


def measure(members: int, updates: int, repeats: int, *, with_rejax: bool) -> dict[str, Any]:
    """Environment steps a second, over all trainings, in each way."""
    every = ways(members, updates, with_rejax=with_rejax)
    speeds: dict[str, list[float]] = {name: [] for name in every}
    for number in range(repeats + 1):
        for name, (train, _) in every.items():
            began = time.perf_counter()
            jax.block_until_ready(eqx.filter(train(), eqx.is_array))
            if number:  # the first one touches memory
                steps = members * updates * NUM_ENVS * NUM_STEPS
                speeds[name].append(steps / (time.perf_counter() - began))
    compiling = {name: seconds for name, (_, seconds) in every.items()}
    return {"members": members, "speeds": speeds, "compile_seconds": compiling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--updates", type=int, default=20, help="updates of each training in a run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-rejax", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    print(f"{describe_device()}: steps/s over all trainings, median (least to most)")
    print("| members | way | steps/s | together / this | compiled in |\n|---|---|---|---|---|")
    rows = []
    for members in options.members:
        sizes = members, options.updates, options.repeats
        row = measure(*sizes, with_rejax=not options.without_rejax)
        rows.append(row)
        for name, found in row["speeds"].items():
            ratio = np.median(np.divide(row["speeds"]["together"], found))
            told = f"{np.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f})"
            compiled = row["compile_seconds"][name]
            print(f"| {members} | {name} | {told} | {ratio:.2f} | {compiled:.1f} s |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
