"""Memory tasks: the returns of networks with memory by three algorithms, and the best returns.

python benchmarks/memory_tasks.py                           # everything, three seeds
python benchmarks/memory_tasks.py match --algorithms r2d2 --networks gru --seeds 0
python benchmarks/memory_tasks.py maze --networks forgetful # a memory that is never read

An algorithm has the same settings for all tasks and networks, except the length of a sequence,
which contains a full trial. It prints the mean return of greedy evaluation games during training,
and at the end a table of the final networks (without a selection): percent of the best return by
seed (and thousand steps to 95% of it), in bold below 95. With `--json`, trainings in the file are
not repeated.
"""

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2 import Prioritized
from hackmatrix_rl.env.memory_tasks import MemoryTask, TMazeConfig
from hackmatrix_rl.system import describe_device

TASKS: dict[str, MemoryTask[Any]] = {
    "match": hm.DelayedMatch(),
    "maze": hm.TMaze(TMazeConfig(10)),
    "nback": hm.NBack(),
    "perceptual": hm.PerceptualDecision(),
    "context": hm.ContextDecision(),
    "senses": hm.MultiSensoryIntegration(),
    "gonogo": hm.GoNoGo(),
    "comparison": hm.DelayedComparison(),
    "reasoning": hm.ProbabilisticReasoning(),
    "longer": hm.IntervalDiscrimination(),
    "timing": hm.IntervalTiming(),
    "readysetgo": hm.ReadySetGo(),
}
NETWORKS = ("gru", "lstm", "mpn", "mpn-frozen", "forgetful")
MEMORYLESS = ("mpn-frozen", "forgetful")
KINDS = ("task", "algorithm", "network", "seed")
LONG = {"reasoning": 48, "longer": 48, "timing": 96, "readysetgo": 64}
"""Steps of a sequence, where a trial has more than `SEQUENCE` steps."""
SEQUENCE = 32
LIMITS = {"maze": 40}
"""Steps of an episode, where the rules have no limit: a bad player of the maze never leaves it."""
LEARNING_RATE = 3e-3
ENOUGH = 0.95
"""The fraction of the best return from which a task counts as learned."""


class Forgetful(ActorCritic):
    """A recurrent network that ignores its memory: a control."""

    inner: hm.MLPActorCritic

    def initial_carry(self) -> Any:
        """A number that never changes."""
        return jnp.zeros((1,), jnp.float32)

    def __call__(self, observation: Any, carry: Any) -> Any:
        """Logits and value of this observation; the memory does not change."""
        logits, value, _ = self.inner(observation, ())
        return logits, value, carry


def network(name: str, spec: hm.EnvSpec, width: int, seed: int) -> ActorCritic:
    key = jax.random.key(seed)
    if name == "forgetful":
        return Forgetful(hm.MLPActorCritic(spec, width=width, depth=1, key=key))
    if name == "mpn":
        return hm.MPNActorCritic(spec, width=width, rate=0.3, key=key)
    return hm.build_network(name, spec, width=width, key=key)


def environment_of(name: str) -> hm.Batched[Any]:
    """The task of this name, many times."""
    return hm.Batched(TASKS[name], max_steps=LIMITS.get(name))


def r2d2(environment: Any, policy: ActorCritic, rate: Linear, length: int, gamma: float) -> Any:
    return hm.R2D2(
        environment,
        policy,
        gamma=gamma,
        n_step=3,
        sampling=Prioritized(),
        num_envs=32,
        train_freq=4,
        buffer_size=32 * 1024,
        sequence_length=length,
        sequence_batch_size=32,
        target_update=50,
        learning_rate=rate,
    )


def ppo(environment: Any, policy: ActorCritic, rate: Linear, length: int, gamma: float) -> Any:
    return hm.PPO(
        environment,
        policy,
        loss=hm.PPOLoss(ent_coef=0.01),
        gae=hm.GAE(gamma, 0.95),
        num_envs=32,
        num_steps=length,
        num_minibatches=4,
        update_epochs=4,
        learning_rate=rate,
    )


def pqn(environment: Any, policy: ActorCritic, rate: Linear, length: int, gamma: float) -> Any:
    return hm.PQN(
        environment,
        policy,
        gamma=gamma,
        num_envs=32,
        num_steps=length,
        num_minibatches=4,
        update_epochs=4,
        learning_rate=rate,
    )


ALGORITHMS: dict[str, Callable[..., Any]] = {"r2d2": r2d2, "ppo": ppo, "pqn": pqn}


def learn(
    name: str, algorithm: str, kind: str, seeds: list[int], given: Any
) -> list[dict[str, Any]]:
    """Trains one network on one task for each seed, with evaluations during training."""
    task, environment = TASKS[name], environment_of(name)
    first = network(kind, environment.spec, given.width, 0)
    rate = Linear(LEARNING_RATE, 0.0, given.steps)
    length = LONG.get(name, SEQUENCE)
    learns = ALGORITHMS[algorithm](environment, first, rate, length, given.gamma)
    updates = max(given.every // learns.steps_per_update, 1)
    trainer = hm.Trainer(learns, updates_per_dispatch=updates)
    rows = []
    for seed in seeds:
        trainer.start(jax.random.key(seed), network(kind, environment.spec, given.width, seed))
        curve, seconds = [], 0.0
        for metrics in trainer.train(given.steps):
            seconds += metrics.seconds
            found = hm.evaluate(
                trainer.policy,
                environment,
                episodes=given.episodes,
                key=jax.random.key(1_000_000 + seed),
                greedy=True,
            ).estimate("return")
            curve.append([metrics.env_steps, round(found.mean, 4)])
        row = {
            "task": name,
            "algorithm": algorithm,
            "network": kind,
            "seed": seed,
            "return": found.mean,
            "low": found.low,
            "high": found.high,
            "best": task.best_return,
            "without_memory": task.memoryless_return,
            "seconds": round(seconds, 1),
            "curve": curve,
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def learned(row: dict[str, Any]) -> bool:
    """Whether the mean return reached `ENOUGH` of the best."""
    return bool(row["return"] >= ENOUGH * row["best"])


def share(row: dict[str, Any]) -> str:
    """Percent of the best return; bold where that is not enough."""
    percent = f"{100 * row['return'] / row['best']:.0f}"
    return percent if learned(row) else f"**{percent}**"


def reached(row: dict[str, Any]) -> str:
    """Thousand steps to `ENOUGH` of the best return, of those that were evaluated."""
    steps = next((at for at, mean in row["curve"] if mean >= ENOUGH * row["best"]), None)
    return "-" if steps is None else f"{steps / 1000:.0f}"


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each task and network with memory, and one for those without; by algorithm."""
    algorithms = list(dict.fromkeys(row["algorithm"] for row in rows))
    lines = [
        "| task | best, without memory | network | " + " | ".join(algorithms) + " |",
        "|---|---|---|" + "---|" * len(algorithms),
    ]
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        kind = "without memory" if row["network"] in MEMORYLESS else row["network"]
        group = groups.setdefault((row["task"], kind), {each: [] for each in algorithms})
        group[row["algorithm"]].append(row)
    for (name, kind), group in groups.items():
        cells = []
        for here in group.values():
            if kind == "without memory":
                percents = [100 * row["return"] / row["best"] for row in here]
                cells.append(f"{min(percents):.0f} to {max(percents):.0f}" if here else "")
            else:
                steps = ", ".join(map(reached, here))
                cells.append(f"{', '.join(map(share, here))} ({steps})" if here else "")
        task = TASKS[name]
        known = f"{task.best_return:.3g}, {task.memoryless_return:.3g}"
        lines.append(f"| {name} | {known} | {kind} | {' | '.join(cells)} |")
    for row in rows:
        if row["network"] in MEMORYLESS and row["low"] > row["without_memory"]:
            names = ", ".join(str(row[each]) for each in KINDS)
            interval = f"{row['low']:.3g} to {row['high']:.3g}"
            lines.append(
                f"Too good without memory ({row['without_memory']:.3g}): {names}: {interval}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; by default all")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=600_000)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--every", type=int, default=50_000, help="steps between evaluations")
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    if unknown := set(given.tasks) - set(TASKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(TASKS)}")

    print(describe_device(), flush=True)
    rows: list[dict[str, Any]] = []
    if given.json and given.json.exists():
        rows = json.loads(given.json.read_text(encoding="utf-8"))
    done = {tuple(row[each] for each in KINDS) for row in rows}
    for which in product(given.tasks or TASKS, given.algorithms, given.networks):
        seeds = [seed for seed in given.seeds if (*which, seed) not in done]
        if not seeds:
            continue
        rows += learn(*which, seeds, given)
        if given.json:
            lines = ",\n".join(map(json.dumps, rows))
            given.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
