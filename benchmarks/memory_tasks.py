"""Sequence-replay Q-learning on memory tasks: what it reaches, beside the best return.

python benchmarks/memory_tasks.py match                      # delayed match to sample
python benchmarks/memory_tasks.py maze --network lstm        # T-maze
python benchmarks/memory_tasks.py match --network forgetful  # a memory that is never looked at

Prints the mean return of greedy games as the training goes on, and its speed.
"""

import argparse
import json
from typing import Any

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.memory_tasks import DelayedMatchConfig, TMazeConfig
from hackmatrix_rl.q_learning import Prioritized
from hackmatrix_rl.system import describe_device

TASKS = {
    "match": hm.DelayedMatch(DelayedMatchConfig(1, 2, 5, 2, 2)),
    "maze": hm.TMaze(TMazeConfig(10)),
}
MOST_STEPS = 40
"""Of an episode: a bad player of the maze never leaves it."""


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--network", default="gru", choices=("gru", "lstm", "forgetful"))
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=512_000)
    parser.add_argument("--every", type=int, default=64_000, help="steps from one row to the next")
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()

    task = TASKS[given.task]
    environment = hm.Batched(task, max_steps=MOST_STEPS)
    first = network(given.network, environment.spec, given.width, 0)
    learns = hm.R2D2(
        environment,
        first,
        gamma=0.97,
        n_step=3,
        sampling=Prioritized(),
        num_envs=32,
        train_freq=4,
        buffer_size=32 * 1024,
        sequence_length=12,
        burn_in=4,
        sequence_batch_size=32,
        target_update=50,
        learning_rate=1e-3,
    )
    updates = max(given.every // learns.steps_per_update, 1)
    trainer = hm.Trainer.of(learns, first, updates_per_dispatch=updates)
    known = {"best": task.best_return, "without_memory": task.memoryless_return}
    print(json.dumps({"task": given.task, **known, "device": describe_device()}), flush=True)
    for seed in range(given.seeds):
        trainer.start(
            jax.random.key(seed), network(given.network, environment.spec, given.width, seed)
        )
        for metrics in trainer.train(given.steps):
            found = hm.evaluate(
                trainer.policy,
                environment,
                episodes=given.episodes,
                key=jax.random.key(99),
                greedy=True,
            ).estimate("return")
            row = {
                "network": given.network,
                "seed": seed,
                "env_steps": metrics.env_steps,
                "return": round(found.mean, 3),
                "low": round(found.low, 3),
                "high": round(found.high, 3),
                "steps_per_second": round(metrics.steps_per_second),
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
