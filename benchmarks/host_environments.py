"""Q-learning on environments in Python: without and with a thread that plays ahead.

    python benchmarks/host_environments.py [--updates 60] [--envs 16] [--width 128]

It needs the neurogym extra. Both ways train the same network on NeuroGym's delayed match to sample,
in turns in one process; compilation is not counted.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from typing import Any

import jax

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import play_ahead

TASK = "DelayMatchSample-v0"


def updates_of(given: argparse.Namespace, ahead: int) -> Iterator[Any]:
    """The updates of a training."""
    environment = hm.from_neurogym(TASK)
    policy = hm.GRUActorCritic(environment.spec, width=given.width, key=jax.random.key(0))
    learns = hm.R2D2(
        environment,
        policy,
        num_envs=given.envs,
        train_freq=given.train_freq,
        buffer_size=given.envs * 2048,
        sequence_length=32,
        sequence_batch_size=64,
        train_steps=given.train_steps,
        learning_rate=1e-3,
    )
    state = learns.init(jax.random.key(1), policy)
    return play_ahead(learns, state, updates=1000 * given.updates, ahead=ahead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=60, help="updates of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--train-freq", type=int, default=16)
    parser.add_argument("--train-steps", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    given = parser.parse_args()
    steps = given.updates * given.envs * given.train_freq
    speeds: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(given.turns):
        for ahead, found in speeds.items():
            training = updates_of(given, ahead)
            for _ in range(5):  # compiles, and fills what is ahead
                next(training)
            began = time.perf_counter()
            for _ in range(given.updates):
                next(training)
            found.append(steps / (time.perf_counter() - began))
            training.close()
    in_turn, beside = (statistics.median(found) for found in speeds.values())
    for name, found in (("in turn", speeds[0]), ("a thread plays ahead", speeds[1])):
        print(
            f"{name}: {statistics.median(found):,.0f} steps/s ({min(found):,.0f} to "
            f"{max(found):,.0f})"
        )
    print(f"ratio {beside / in_turn:.2f}")


if __name__ == "__main__":
    main()
