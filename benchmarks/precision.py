"""The time of one gradient of the loss, by network, width and precision.

python benchmarks/precision.py --sizes cells:128 mlp:256 mlp:2048 --repeats 9

The precisions run in turns, so other work on the machine slows all of them. The batch is synthetic
(only zeros, every action legal), because the time does not depend on its numbers.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hackmatrix_rl import HackMatrix
from hackmatrix_rl.agent import Batch, PPOLoss
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.system import describe_device


def made_up(environment: HackMatrix, steps: int, games: int) -> Batch:
    spec = environment.spec
    zeros = jnp.zeros((steps, games), jnp.float32)
    return Batch(
        observation=jax.tree.map(
            lambda leaf: jnp.zeros((steps, games, *leaf.shape), leaf.dtype), spec.observation
        ),
        mask=jnp.ones((steps, games, spec.num_actions), bool),
        action=zeros.astype(jnp.int32),
        log_prob=zeros,
        value=zeros,
        done=zeros.astype(bool),
        initial_carry=(),
        advantage=zeros,
        value_target=zeros,
    )


def gradient(name: str, network: Any, batch: Batch) -> tuple[Any, float]:
    """A compiled gradient, and the seconds of compiling."""
    policy = precision(name)
    arrays, rest = eqx.partition((network, batch, policy.initial_scaling()), eqx.is_array)

    def program(arrays: Any) -> Any:
        network, batch, scaling = eqx.combine(arrays, rest)
        found, _ = policy.grad(PPOLoss(), scaling)(network, batch)
        return eqx.filter(found, eqx.is_array)

    began = time.perf_counter()
    compiled = jax.jit(program).lower(arrays).compile()
    return (lambda: compiled(arrays)), time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["cells:128", "mlp:256", "mlp:2048"])
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--games", type=int, default=128, help="games of a minibatch")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()

    environment = HackMatrix()
    batch = made_up(environment, given.steps, given.games)
    print(f"{describe_device()}, {given.games} games x {given.steps} steps, median ms (min, max)")
    rows = []
    for size in given.sizes:
        name, _, width = size.partition(":")
        network = build_network(name, environment.spec, width=int(width), key=jax.random.key(0))
        programs = {each: gradient(each, network, batch) for each in given.precisions}
        seconds: dict[str, list[float]] = {each: [] for each in programs}
        for repeat in range(given.repeats + 1):
            for each, (call, _) in programs.items():
                began = time.perf_counter()
                jax.block_until_ready(call())
                if repeat:  # the first one warms up
                    seconds[each].append(time.perf_counter() - began)
        for each, (_, compiling) in programs.items():
            times = seconds[each]
            found = {"median": statistics.median(times), "min": min(times), "max": max(times)}
            middle, least, most = (1e3 * value for value in found.values())
            print(
                f"{size:12} {each:6} {middle:9.1f} ({least:.1f}, {most:.1f})  compiled in "
                f"{compiling:.1f} s"
            )
            rows.append(
                {"network": size, "precision": each, "seconds": found, "compile_seconds": compiling}
            )
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
