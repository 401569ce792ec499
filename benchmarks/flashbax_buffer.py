"""The buffer of Q-learning against that of flashbax: time and communication of a sample.

    pip install flashbax && python benchmarks/flashbax_buffer.py [--devices 2]

64 environments with 512 steps each of `DelayedMatch()`, and 64 sequences of 20 steps; flashbax
stores the same steps, with a period of 4. Sampling is compiled alone: for one device, where it is
timed in turns, and sharded over CPU devices, where the compiled program shows its communication.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DRAWN, ENVIRONMENTS, STEPS, WINDOW, PERIOD = 64, 64, 512, 20, 4
Draw = Callable[[Any, Any], Any]


def ours(prioritized: bool) -> tuple[Any, Draw]:
    """A full buffer of the package, and its draw: one sequence from each block."""
    import hackmatrix_rl as hm
    from hackmatrix_rl.algorithms.r2d2 import Prioritized, Uniform
    from hackmatrix_rl.algorithms.r2d2._buffer import Buffer

    environment = hm.Batched(hm.DelayedMatch())
    policy = hm.GRUActorCritic(environment.spec, width=8, key=jax.random.key(0))
    sampling = Prioritized() if prioritized else Uniform()
    buffer = Buffer.empty(
        environment, policy,
        num_envs=ENVIRONMENTS, length=STEPS, train_freq=PERIOD, priorities=prioritized,
    )  # fmt: skip
    full = Buffer(
        buffer.steps,
        buffer.carry,
        None if buffer.priority is None else jnp.ones_like(buffer.priority),
        buffer.slot,
        jnp.full_like(buffer.filled, STEPS),
    )

    def draw(buffer: Any, keys: Any) -> Any:
        return buffer.draw(sampling, 1, starts=STEPS // PERIOD, window=WINDOW, keys=keys).steps

    return full, draw


def theirs(prioritized: bool) -> tuple[Any, Draw]:
    """A full buffer of flashbax with the same steps, and its draw."""
    import flashbax

    steps = ours(prioritized)[0].steps
    sizes = {
        "add_batch_size": ENVIRONMENTS,
        "sample_batch_size": DRAWN,
        "sample_sequence_length": WINDOW,
        "period": PERIOD,
        "min_length_time_axis": WINDOW,
        "max_length_time_axis": STEPS,
    }
    make = (
        flashbax.make_prioritised_trajectory_buffer
        if prioritized
        else flashbax.make_trajectory_buffer
    )
    buffer = make(**sizes)
    state = buffer.init(jax.tree.map(lambda leaf: leaf[0, 0], steps))
    state = buffer.add(state, jax.tree.map(lambda leaf: leaf[:, : STEPS // 2], steps))
    state = buffer.add(state, jax.tree.map(lambda leaf: leaf[:, STEPS // 2 :], steps))
    return state, lambda state, key: buffer.sample(state, key).experience


def sent(name: str, state: Any, draw: Draw, devices: int) -> str:
    """The bytes that a draw receives on a mesh that cuts the environments, and by what."""
    from hackmatrix_rl.training.compiled import collectives

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("data",))
    whole, cut = jax.P(), jax.P("data")
    specs = jax.tree.map(
        lambda leaf: cut if leaf.ndim and leaf.shape[0] == ENVIRONMENTS else whole, state
    )
    keys: Any = jax.random.key(0)
    if name == "ours":  # each device draws from its own environments, with the keys of its blocks
        keys = jax.random.split(keys, DRAWN)
        draw = jax.shard_map(
            draw, mesh=mesh, in_specs=(specs, cut), out_specs=cut, check_vma=False
        )  # fmt: skip
    placed = jax.tree.map(
        lambda leaf, spec: jax.device_put(leaf, jax.NamedSharding(mesh, spec)), state, specs
    )
    program = jax.jit(draw).lower(placed, keys).compile().as_text()
    assert program is not None
    found = collectives(program, devices)
    kinds = sorted({each.kind for each in found})
    return f"{sum(each.result_bytes * each.times for each in found):,} {', '.join(kinds)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", given.devices)
    rows: dict[str, tuple[Any, Any, str]] = {}
    for name, make in (("ours", ours), ("flashbax", theirs)):
        for prioritized in (False, True):
            state, draw = make(prioritized)
            label = f"{name}, {'prioritised' if prioritized else 'uniform'}"
            rows[label] = (state, jax.jit(draw), sent(name, state, draw, given.devices))
    taken: dict[str, list[float]] = {label: [] for label in rows}
    for number in range(given.repeats + 1):
        for label, (state, draw, _) in rows.items():
            key = jax.random.key(number)
            keys = jax.random.split(key, DRAWN) if label.startswith("ours") else key
            began = time.process_time()
            jax.block_until_ready(draw(state, keys))
            taken[label].append(time.process_time() - began)
    print("| buffer | microseconds of a core for a draw | bytes that the draw receives |")
    print("| --- | --- | --- |")
    for label, (_, _, bytes_sent) in rows.items():
        median = np.median(taken[label][1:]) * 1e6
        print(f"| {label} | {median:,.0f} | {bytes_sent} |")


if __name__ == "__main__":
    main()
