"""Sequence-replay Q-learning on memory tasks: what it reaches, beside the best return.

python benchmarks/memory_tasks.py                           # all tasks and networks, three seeds
python benchmarks/memory_tasks.py match --networks gru --seeds 0
python benchmarks/memory_tasks.py maze --networks forgetful # a memory that is never looked at

All tasks and networks have one setting. Prints the mean return of greedy games, apart from those of
the training, as it goes on; and at the end a table of the last networks. None is chosen.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2 import Prioritized
from hackmatrix_rl.memory_tasks import MemoryTask, TMazeConfig
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
NETWORKS = ("gru", "lstm", "forgetful")
LIMITS = {"maze": 40}
"""Steps of an episode, where the rules have no limit: a bad player of the maze never leaves it."""
LEARNING_RATE = 3e-3
SETTING: dict[str, Any] = {
    "gamma": 0.97,
    "n_step": 3,
    "sampling": Prioritized(),
    "num_envs": 32,
    "train_freq": 4,
    "buffer_size": 32 * 1024,
    "sequence_length": 32,
    "sequence_batch_size": 32,
    "target_update": 50,
}
ENOUGH = 0.95
"""Of the best return: a task is learned."""


class Forgetful(ActorCritic):
    """A network without memory, in the form of one that has some."""

    inner: hm.MLPActorCritic

    def initial_carry(self) -> Any:
        """A number that never changes."""
        return jnp.zeros((1,), jnp.float32)

    def __call__(self, observation: Any, carry: Any) -> Any:
        """Plays and values this observation; the memory stays as it is."""
        logits, value, _ = self.inner(observation, ())
        return logits, value, carry


def network(name: str, spec: hm.EnvSpec, width: int, seed: int) -> ActorCritic:
    key = jax.random.key(seed)
    if name == "forgetful":
        return Forgetful(hm.MLPActorCritic(spec, width=width, depth=1, key=key))
    return hm.build_network(name, spec, width=width, key=key)


def environment_of(name: str) -> hm.Batched[Any]:
    """The task of this name, many times."""
    return hm.Batched(TASKS[name], max_steps=LIMITS.get(name))


def learn(name: str, kind: str, given: Any) -> list[dict[str, Any]]:
    """Trains one network on one task for each seed, and evaluates it meanwhile."""
    task, environment = TASKS[name], environment_of(name)
    first = network(kind, environment.spec, given.width, 0)
    rate = Linear(LEARNING_RATE, 0.0, given.steps)
    learns = hm.R2D2(environment, first, learning_rate=rate, **SETTING)
    updates = max(given.every // learns.steps_per_update, 1)
    trainer = hm.Trainer(learns, updates_per_dispatch=updates)
    rows = []
    for seed in given.seeds:
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


def verdict(row: dict[str, Any]) -> str:
    """Whether the row says what it should: learned, or not better than without memory.

    With memory, the mean has to reach `ENOUGH` of the best return. Without, its interval has to
    begin at the most that is possible, or below.
    """
    if row["network"] != "forgetful":
        return "learned" if row["return"] >= ENOUGH * row["best"] else "**not learned**"
    return "as it must" if row["low"] <= row["without_memory"] else "**too good**"


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each task and network, with all seeds."""
    lines = [
        "| task | best, without memory | network | return by seed (95% interval) | |",
        "|---|---|---|---|---|",
    ]
    for name, kind in dict.fromkeys((row["task"], row["network"]) for row in rows):
        here = [row for row in rows if (row["task"], row["network"]) == (name, kind)]
        returns = "; ".join(
            f"{row['return']:.3f} ({row['low']:.3f} to {row['high']:.3f})" for row in here
        )
        said = ", ".join(dict.fromkeys(verdict(row) for row in here))
        known = f"{here[0]['best']:g}, {here[0]['without_memory']:g}"
        lines.append(f"| {name} | {known} | {kind} | {returns} | {said} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; by default all")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=600_000)
    parser.add_argument("--every", type=int, default=100_000, help="steps between evaluations")
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    if unknown := set(given.tasks) - set(TASKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(TASKS)}")

    print(describe_device(), flush=True)
    rows: list[dict[str, Any]] = []
    for name in given.tasks or TASKS:
        for kind in given.networks:
            rows += learn(name, kind, given)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
