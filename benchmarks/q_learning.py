"""Sequence-replay Q-learning: speed and learning curves of its variants, and against PPO.

python benchmarks/q_learning.py speed --json benchmarks/learning/q_learning.json
python benchmarks/q_learning.py cartpole hackmatrix --json benchmarks/learning/q_learning.json

- `speed`: delayed match to sample with a GRU, in variants of one update, each in its own process.
  Each has a learning curve: the return of greedy evaluation games, over environment steps and over
  seconds of training without compilation.
- `cartpole`, `hackmatrix`: R2D2 and PPO at equal environment steps, with their curves.

A measured part replaces the same part in the file of `--json`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SEEDS = [0, 1, 2]
EPISODES = 512
"""Games of each point of a curve; the last point has 1,024."""
STEPS = 400_000
BATCHED: dict[str, Any] = {
    "gamma": 0.97,
    "n_step": 3,
    "num_envs": 32,
    "train_freq": 1,
    "buffer_size": 32 * 1024,
    "sequence_length": 32,
    "sequence_batch_size": 32,
    "target_update": 50,
    "learning_rate": 3e-3,
}
FAST = BATCHED | {"sequence_batch_size": 64, "train_freq": 4}
MOST = BATCHED | {"sequence_batch_size": 128, "train_freq": 8}


class Variant(NamedTuple):
    """One row of the table of speed.

    Attributes:
        name: what it is.
        setting: arguments of `R2D2`.
        steps: environment steps of each seed.
        seeds: of the curves.
        devices: of the CPU.
        compiled: if not, every operation runs alone, for `steps` steps and without a curve.
    """

    name: str
    setting: dict[str, Any]
    steps: int = STEPS
    seeds: list[int] = SEEDS
    devices: int = 1
    compiled: bool = True


VARIANTS = [
    Variant(
        "not compiled, one sequence at a time", BATCHED | {"grad_accum": 32}, 32, [0], 1, False
    ),
    Variant("not compiled, batched", BATCHED, 64, [0], 1, False),
    Variant("one sequence at a time (32 of a step)", BATCHED | {"grad_accum": 32}, 64_000, [0]),
    Variant(
        "one sequence in a step, 32 steps",
        BATCHED | {"sequence_batch_size": 1, "train_steps": 32, "target_update": 50 * 32},
        64_000,
        [0],
    ),
    Variant("batched: 32", BATCHED),
    Variant("batched: 64, train_freq 4", FAST),
    Variant("batched: 128, train_freq 8", MOST),
    Variant("64, train_freq 4, bf16", FAST | {"precision": "bf16"}, STEPS, [0]),
    Variant("64, train_freq 4, grad_accum 4", FAST | {"grad_accum": 4}),
    Variant("64, train_freq 4, two devices", FAST, STEPS, [0], 2),
    Variant("64, train_freq 4, eight devices", FAST, STEPS, [0], 8),
    Variant("128, train_freq 8, two devices", MOST, STEPS, [0], 2),
]
BASE = "one sequence at a time (32 of a step)"
"""The row that the speed of the others is compared with."""


def measure(variant: Variant) -> dict[str, Any]:
    """The speed of a variant, and its curves, in this process."""
    # Imported after the number of devices is set, because JAX reads it at import.
    import jax

    import hackmatrix_rl as hm
    from hackmatrix_rl.algorithms.r2d2 import Prioritized

    environment = hm.Batched(hm.DelayedMatch())

    def network(seed: int) -> Any:
        return hm.GRUActorCritic(environment.spec, width=32, key=jax.random.key(seed))

    learns = hm.R2D2(
        environment,
        network(0),
        sampling=Prioritized(),
        mesh=f"data={variant.devices}",
        **variant.setting,
    )
    row: dict[str, Any] = {"name": variant.name, "setting": variant.setting}
    row["devices"] = variant.devices
    if not variant.compiled:
        return row | {"speed": _uncompiled(learns, network(0), variant.steps)}
    points = 10
    updates = max(variant.steps // points // learns.steps_per_update, 1)
    trainer = hm.Trainer(learns, updates_per_dispatch=updates)
    trainer.start(jax.random.key(0))
    row["compile_seconds"] = round(trainer.compile(), 1)
    row["memory"] = trainer.program_memory()
    speeds, worked, row["curves"] = [], 0.0, {}
    for seed in variant.seeds:
        trainer.start(jax.random.key(seed), network(seed))
        curve, seconds = [], 0.0
        for number in range(points):
            began = time.process_time()
            metrics = trainer.dispatch(updates)
            worked += time.process_time() - began
            seconds += metrics.seconds
            speeds.append(metrics.steps_per_second)
            found = _greedy(trainer.policy, environment, seed, last=number == points - 1)
            curve.append([metrics.env_steps, round(seconds, 2), *found])
        row["curves"][str(seed)] = curve
    steps = len(variant.seeds) * points * updates * learns.steps_per_update
    row["speed"] = _spread(speeds)
    row["steps_per_cpu_second"] = round(steps / worked)
    return row


def _uncompiled(learns: Any, policy: Any, steps: int) -> dict[str, float]:
    """Steps per second, each operation alone; the first update is not counted."""
    import jax

    from hackmatrix_rl.algorithms.r2d2 import _learning, _r2d2

    def directly(_: Any, function: Callable[..., Any], modules: Any, given: Any, **__: Any) -> Any:
        return function(*modules, given)

    # On one device. `shard_map` would compile each operation once more.
    for module in (_learning, _r2d2):
        vars(module)["on_each_device"] = directly
    state = learns.init(jax.random.key(0), policy)
    speeds = []
    with jax.disable_jit():
        for _ in range(1 + steps // learns.steps_per_update):
            began = time.perf_counter()
            state, report = learns(state)
            jax.block_until_ready((state.learner, report))
            speeds.append(learns.steps_per_update / (time.perf_counter() - began))
    return _spread(speeds[1:])


def _greedy(policy: Any, environment: Any, seed: int, *, last: bool, greedy: bool = True) -> Any:
    """The return of games apart from the training, with its interval."""
    import jax

    import hackmatrix_rl as hm

    found = hm.evaluate(
        policy,
        environment,
        episodes=1024 if last else EPISODES,
        key=jax.random.key(1_000_000 + seed),
        greedy=greedy,
    ).estimate("return")
    return [round(each, 4) for each in (found.mean, found.low, found.high)]


def _spread(speeds: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(speeds), 2),
        "min": round(min(speeds), 2),
        "max": round(max(speeds), 2),
    }


def measure_speed() -> list[dict[str, Any]]:
    """All variants, each in its own process."""
    rows = []
    for variant in VARIANTS:
        flags = f"--xla_force_host_platform_device_count={variant.devices}"
        found = subprocess.run(
            [sys.executable, __file__, "--one", variant.name],
            env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows.append(json.loads(found.stdout.splitlines()[-1]))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "setting"}), flush=True)
    return rows


def speed_table(rows: list[dict[str, Any]]) -> str:
    """The table of all variants, with their speed relative to `BASE`."""
    base = next(row for row in rows if row["name"] == BASE)["speed"]["median"]
    lines = [
        "| variant | steps/s | times as fast | steps/s of CPU time | memory MiB "
        "| last return by seed | steps to 95% | seconds to 95% |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        speed, curves = row["speed"], row.get("curves", {}).values()
        reached = [next((p for p in curve if p[2] >= 0.95), None) for curve in curves]
        middle = "{median:,.0f} ({min:,.0f} to {max:,.0f})"
        if speed["median"] < 100:
            middle = "{median:.2f} ({min:.2f} to {max:.2f})"
        cells = [
            row["name"],
            middle.format(**speed),
            f"{speed['median'] / base:.3g}",
            f"{row['steps_per_cpu_second']:,}" if curves else "",
            f"{row['memory'] / 2**20:.1f}" if curves else "",
            ", ".join(f"{curve[-1][2]:.2f}" for curve in curves),
            ", ".join("-" if p is None else f"{p[0]:,}" for p in reached),
            ", ".join("-" if p is None else f"{p[1]:.1f}" for p in reached),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def beside_ppo(name: str) -> list[dict[str, Any]]:
    """R2D2 and PPO on a game, at equal steps. PPO draws its actions, as it does in training."""
    import jax

    import hackmatrix_rl as hm
    from hackmatrix_rl.agent import Linear
    from hackmatrix_rl.algorithms.r2d2 import Prioritized

    cartpole = name == "cartpole"
    environment: hm.Environment = hm.CartPole() if cartpole else hm.HackMatrix()
    steps = 500_000 if cartpole else 1_000_000
    width = 64 if cartpole else 128

    def gru(seed: int) -> Any:
        return hm.GRUActorCritic(environment.spec, width=width, key=jax.random.key(seed))

    def mlp(seed: int) -> Any:
        key = jax.random.key(seed)
        return hm.MLPActorCritic(environment.spec, width=width, depth=2, key=key)

    def q_learning() -> hm.Trainer[Any]:
        learns = hm.R2D2(
            environment,
            gru(0),
            gamma=0.99 if cartpole else 0.997,
            sampling=Prioritized(),
            num_envs=64,
            train_freq=4,
            buffer_size=64 * 1024 if cartpole else 64 * 512,
            sequence_length=10 if cartpole else 16,
            burn_in=4,
            sequence_batch_size=64,
            target_update=100,
            learning_rate=Linear(1e-3, 0.0, steps),
        )
        return hm.Trainer(learns)

    def ppo(network: Callable[[int], Any]) -> Any:
        return hm.Trainer(
            hm.PPO(
                environment,
                network(0),
                num_envs=64,
                num_steps=64,
                num_minibatches=4,
                learning_rate=Linear(1e-3, 0.0, steps),
                loss=hm.PPOLoss(ent_coef=0.0 if cartpole else 0.01),
            )
        )

    players = {
        "r2d2, gru": (q_learning, gru),
        "ppo, mlp": (lambda: ppo(mlp), mlp),
        "ppo, gru": (lambda: ppo(gru), gru),
    }
    points, rows = 10, []
    for player, (make, network) in players.items():
        trainer = make()
        updates = max(steps // points // trainer.batch_size, 1)
        for seed in SEEDS:
            trainer.start(jax.random.key(seed), network(seed))
            curve, seconds = [], 0.0
            for number in range(points):
                metrics = trainer.dispatch(updates)
                seconds += metrics.seconds
                greedy = player.startswith("r2d2")
                last = number == points - 1
                found = _greedy(trainer.policy, environment, seed, last=last, greedy=greedy)
                curve.append([metrics.env_steps, round(seconds, 2), *found])
            rows.append({"player": player, "seed": seed, "curve": curve})
            print(json.dumps({"game": name} | rows[-1]), flush=True)
    return rows


def beside_table(rows: list[dict[str, Any]]) -> str:
    """The last returns, and those after a tenth, three tenths and half of the steps."""
    shown = (0, 2, 4, 9)
    heads = [f"{rows[0]['curve'][place][0]:,}" for place in shown]
    lines = [
        f"| return after so many steps | seed | {' | '.join(heads)} | steps/s |",
        f"|---|---|{'---|' * (len(shown) + 1)}",
    ]
    for row in rows:
        curve = row["curve"]
        returns = [f"{curve[place][2]:.1f}" for place in shown]
        returns[-1] += f" ({curve[-1][3]:.1f} to {curve[-1][4]:.1f})"
        speed = curve[-1][0] / curve[-1][1]
        lines.append(f"| {row['player']} | {row['seed']} | {' | '.join(returns)} | {speed:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="speed, cartpole, hackmatrix; by default all")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the variant of a child process
    given = parser.parse_args()
    if given.one is not None:
        variant = next(each for each in VARIANTS if each.name == given.one)
        print(json.dumps(measure(variant)))
        return
    found: dict[str, Any] = {}
    if given.json and given.json.exists():
        found = json.loads(given.json.read_text(encoding="utf-8"))
    for part in given.parts or ["speed", "cartpole", "hackmatrix"]:
        found[part] = measure_speed() if part == "speed" else beside_ppo(part)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        table = speed_table if part == "speed" else beside_table
        print(table(found[part]), flush=True)


if __name__ == "__main__":
    main()
