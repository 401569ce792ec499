"""Memory and time of a minibatch's gradient, with each measure that saves memory.

    python benchmarks/memory.py [--network residual --depth 8] [--games 128] [--json FILE]

The temporary memory is XLA's figure for the compiled gradient (`memory_analysis`): everything
except its arguments (parameters, minibatch) and results. The minibatch has the shapes of
HackMatrix; no game is compiled or played.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hackmatrix_rl.agent import IDENTITY_SCALE, Batch, PPOLoss
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.training import GradientStep
from hackmatrix_rl.training.sharding import single_device

MEASURES = {
    "none": {},
    "--remat blocks": {"remat": "blocks"},
    "--remat full": {"remat": "full"},
    "--grad-accum 4": {"grad_accum": 4},
    "--grad-accum 16": {"grad_accum": 16},
    "--grad-accum 4 --remat blocks": {"grad_accum": 4, "remat": "blocks"},
}


def blank_batch(spec, policy, *, steps: int, games: int) -> Batch:
    """An empty minibatch of the right shapes."""

    def zeros(shape, dtype):
        return jnp.zeros((steps, games, *shape), dtype)

    number = zeros((), jnp.float32)
    return Batch(
        observation=jax.tree.map(lambda leaf: zeros(leaf.shape, leaf.dtype), spec.observation),
        mask=~zeros((spec.num_actions,), bool),
        action=zeros((), jnp.int32),
        log_prob=number,
        value=number,
        done=zeros((), bool),
        initial_carry=jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf[None], (games, *leaf.shape)), policy.initial_carry()
        ),
        advantage=number,
        value_target=number,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="residual")
    parser.add_argument("--width", type=int)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--games", type=int, default=128, help="games of the minibatch")
    parser.add_argument("--steps", type=int, default=32, help="steps of each game")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()

    spec = HackMatrix().spec
    policy = build_network(
        options.network, spec, width=options.width, depth=options.depth, key=jax.random.key(0)
    )
    batch = blank_batch(spec, policy, steps=options.steps, games=options.games)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(policy, eqx.is_array)))
    computes = precision(options.precision)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}; {options.network} of "
          f"{parameters:,} parameters, {options.precision}; a minibatch of {options.games} games x "
          f"{options.steps} steps")  # fmt: skip
    print(f"{'measure':32}{'temporary MiB':>14}{'seconds (median)':>18}")
    rows = []
    for name, measure in MEASURES.items():
        step = GradientStep(optax.identity(), computes, single_device(), **measure)
        given = step.init(policy, IDENTITY_SCALE), PPOLoss(), batch
        try:
            compiled = eqx.filter_jit(step.gradient).lower(*given).compile()
        except ValueError as error:
            print(f"{name:32}{error}")
            continue
        temporary = compiled.compiled.memory_analysis().temp_size_in_bytes
        seconds = []
        for _ in range(options.repeats + 1):
            began = time.perf_counter()
            jax.block_until_ready(compiled(*given))
            seconds.append(time.perf_counter() - began)
        median = statistics.median(seconds[1:])
        rows.append({"measure": name, "temporary_bytes": temporary, "seconds": median})
        print(f"{name:32}{temporary / 2**20:14.1f}{median:18.3f}")
    if options.json is not None:
        figures = {"parameters": parameters, **vars(options), "rows": rows}
        options.json.write_text(json.dumps(figures, default=str, indent=2) + "\n")


if __name__ == "__main__":
    main()
