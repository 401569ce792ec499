"""The time of each part of an environment step, compiled alone, on played games.

    python benchmarks/profile_env.py [--games 4096] [--parts mask action] [--json FILE]

First, the games play `--steps` random legal steps. Then each part of a step is compiled and timed
alone, on all games, and so is the full step. Alone, a part cannot fuse with its neighbours and
must read and write memory, so the sum exceeds the step: compare the parts with each other. They run
in turns, so other work on the machine slows all of them. `instructions`, `fusions`, `loops` and
`copies` are counts of the compiled program.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from program_counts import program_counts

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.cli.bench._environment_speed import random_legal
from hackmatrix_rl.env import HackMatrix, Timestep, compact_observation, env_keys
from hackmatrix_rl.games.hackmatrix import State, legal_actions
from hackmatrix_rl.games.hackmatrix._actions import apply_action, is_legal
from hackmatrix_rl.games.hackmatrix._enemy_turn import arrive, enemy_turn, move_enemies, spawn
from hackmatrix_rl.games.hackmatrix._history import remember
from hackmatrix_rl.games.hackmatrix._rewards import reward_terms
from hackmatrix_rl.games.hackmatrix._stage import set_up_if
from hackmatrix_rl.system import describe_device
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.training import compiler_options
from hackmatrix_rl.training.sharding import single_device

SECONDS = 0.05
"""The least duration of one timing of a part."""


class Batch(NamedTuple):
    """The inputs of the parts: one step of played games, each leaf of a batch."""

    environment: HackMatrix
    state: Any
    games: State
    mask: Any
    actions: Any
    keys: Any
    after: Any
    event: Any
    turned: Any
    set_up: Any


class Part(NamedTuple):
    """One part: its function and arguments, and whether it overwrites the first argument."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    in_place: bool = False
    in_sum: bool = True


def by_chance(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function: its last argument is a key instead of a `Chance`."""
    return lambda *arguments: function(*arguments[:-1], chance=Chance.from_key(arguments[-1]))


def parts(b: Batch) -> dict[str, Part]:
    """The table of parts; most are functions of one game."""
    config, position = b.environment.config, b.games.position

    def one(function: Callable[..., Any], *arguments: Any, **how: bool) -> Part:
        return Part(jax.vmap(function), arguments, **how)

    return {
        "random keys": one(lambda key: jax.random.split(key, 4), b.keys),
        "random actions": Part(random_legal, (b.mask, b.keys), in_sum=False),
        "mask": one(lambda game: legal_actions(config, game), b.games),
        "action": one(
            lambda game, action, mask, key: apply_action(
                game, action, is_legal(mask, action), chance=Chance.from_key(key)
            ),
            *(b.games, b.actions, b.mask, b.keys),
        ),
        "arrivals": one(arrive, b.after, b.turned),
        "movement": one(by_chance(move_enemies), b.after, b.turned, b.keys),
        "spawns": one(by_chance(spawn), b.after, b.turned, b.keys),
        "enemy turn (the three above)": one(
            by_chance(enemy_turn), b.after, b.turned, b.keys, in_sum=False
        ),
        "reward, distance": one(reward_terms, position, b.after, b.event),
        "history": one(
            lambda history, at, push, pop: remember(history, at, push=push, pop=pop),
            *(b.games.history, b.after, b.turned, b.event.popped),
            in_place=True,
        ),
        "set-up": one(by_chance(set_up_if), b.set_up, b.after, b.keys),
        "observation": one(compact_observation, b.after),
        "reset of all games": Part(b.environment.reset, (b.keys,), in_sum=False),
        "whole step": Part(
            lambda state, actions, keys: b.environment.step(state, actions, keys),
            (b.state, b.actions, b.keys),
            in_place=True,
            in_sum=False,
        ),
    }


def played(environment: HackMatrix, num_games: int, steps: int) -> Batch:
    """Games after some steps of random play, and the results of the next step."""

    @jax.jit
    def step(state: Any, mask: Any, keys: Any, index: Any) -> tuple[Any, Timestep, Any, Any]:
        pair = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, index)))(keys)
        actions = random_legal(mask, pair[:, 0])
        after, timestep = environment.step(state, actions, pair[:, 1])
        return after, timestep, actions, pair[:, 1]

    keys = env_keys(jax.random.key(0), num_games)
    state, timestep = jax.jit(environment.reset)(keys)
    for index in range(steps):
        state, timestep, _, _ = step(state, timestep.mask, keys, index)
    after, last, actions, step_keys = step(state, timestep.mask, keys, steps)
    games = state.games

    @jax.jit
    def act(games: State, mask: Any, actions: Any, keys: Any) -> Any:
        def one(game: State, mask: Any, action: Any, key: Any) -> Any:
            return apply_action(game, action, is_legal(mask, action), chance=Chance.from_key(key))

        return jax.vmap(one)(games, mask, actions, keys)

    acted, event = act(games, timestep.mask, actions, step_keys)
    began = last.done | (after.games.position.stage != games.position.stage)
    turned = event.ends_turn & ~acted.step_active
    return Batch(
        environment, state, games, timestep.mask, actions, step_keys, acted, event, turned, began
    )


class Timed:
    """A compiled part and its timings in seconds."""

    def __init__(self, part: Part) -> None:
        self.part = part
        # Donated arguments are lost, so each part has its own copy.
        self._arguments = jax.tree.map(jnp.copy, part.arguments)
        began = time.perf_counter()
        jitted = jax.jit(part.function, donate_argnums=(0,) if part.in_place else ())
        self.program = jitted.lower(*self._arguments).compile(compiler_options(single_device()))
        self.compile_seconds = time.perf_counter() - began
        self.seconds: list[float] = []
        self._calls = 1
        self._calls = max(1, round(SECONDS / min(self._once(), self._once())))

    def time(self) -> None:
        """Adds one timing."""
        self.seconds.append(self._once())

    def _once(self) -> float:
        began = time.perf_counter()
        for _ in range(self._calls):
            found = self.program(*self._arguments)
            if self.part.in_place:
                first = found[0] if isinstance(found, tuple) else found
                self._arguments = (first, *self._arguments[1:])
        jax.block_until_ready(found)
        return (time.perf_counter() - began) / self._calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=4096, help="parallel games")
    parser.add_argument("--steps", type=int, default=64, help="steps of random play before")
    parser.add_argument("--repeats", type=int, default=9, help="timings of each part")
    parser.add_argument("--parts", nargs="+", metavar="NAME", help="only these; default: all")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()

    batch = played(PPOConfig().environment(), options.games, options.steps)
    table = parts(batch)
    chosen = options.parts or list(table)
    for name in chosen:
        if name not in table:
            parser.error(f"--parts {name}: unknown. Use {', '.join(map(repr, table))}.")
    print(f"{describe_device()}, jax {jax.__version__}, {options.games:,} games; "
          f"{float(batch.set_up.mean()):.3f} of them get a new stage")  # fmt: skip
    timed = {name: Timed(table[name]) for name in chosen}
    for _ in range(options.repeats):
        for each in timed.values():
            each.time()
    print(f"{'ns a game':30} {'median':>8} {'min':>8} {'max':>8}  compile s  instructions"
          "  fusions  loops  copies")  # fmt: skip
    rows = []
    for name, each in timed.items():
        nanoseconds = [1e9 * seconds / options.games for seconds in each.seconds]
        row = {
            "part": name,
            "in_sum": each.part.in_sum,
            "nanoseconds": {
                "median": statistics.median(nanoseconds),
                "min": min(nanoseconds),
                "max": max(nanoseconds),
            },
            "compile_seconds": each.compile_seconds,
            **dataclasses.asdict(program_counts(each.program)),
        }
        rows.append(row)
        middle, smallest, largest = row["nanoseconds"].values()
        print(
            f"{name:30} {middle:8,.0f} {smallest:8,.0f} {largest:8,.0f}  "
            f"{each.compile_seconds:9.1f}  {row['instructions']:12,d}  {row['fusions']:7,d}  "
            f"{row['loops']:5,d}  {row['copies']:6,d}"
        )
    total = sum(row["nanoseconds"]["median"] for row in rows if row["in_sum"])
    print(f"{'sum of the parts of a step':30} {total:8,.0f}")
    if options.json:
        figures = {"games": options.games, "steps": options.steps, "sum": total, "parts": rows}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
