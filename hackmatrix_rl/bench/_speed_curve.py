"""The environment's speed by number of games and by stage."""

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.batching import Chance
from hackmatrix_rl.bench._environment_speed import RandomPlay, Speed
from hackmatrix_rl.env import HackMatrix, HackMatrixState, Timestep, env_keys
from hackmatrix_rl.game import FIRST_INTERVAL, State, blank_position, empty_history, set_up_stage

LATE_STAGE = 6
ARRIVAL_STEPS, LATE_STEPS = 2, 6
"""Steps of each late game: until its enemies arrive, and then in a run. The run is short,
because random play soon loses and continues in stage 1."""
ALL_STEPS = 2**17
"""Steps of all games together in a run, within the limits below."""
STEPS = (32, 512)


@dataclass(frozen=True)
class Point:
    """One point of a curve: games from a stage on, their runs, and the checksum of all results."""

    num_envs: int
    stage: int
    steps: int
    speed: Speed
    memory: int | None
    checksum: int
    dropped_spawns: int
    episodes: int

    @property
    def restarted(self) -> float:
        """Share of the games of all runs that ended and continued in stage 1."""
        return self.episodes / (self.num_envs * len(self.speed.steps_per_second))

    def as_dict(self) -> dict[str, Any]:
        """The form of the benchmarks' JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "speed"}
        return plain | self.speed.as_dict()


def games_at_stage(
    environment: HackMatrix, keys: Key[Array, " num_envs"], stage: Int32[Array, ""]
) -> tuple[HackMatrixState, Timestep]:
    """New games that start at a given stage, 1 to 8, one for each key."""

    def one(key: Key[Array, ""]) -> State:
        chance = Chance.of(key)
        position = replace(
            blank_position(environment.config, chance=chance.fold_in(0)),
            stage=stage,
            scheduled_task_interval=FIRST_INTERVAL + 1 - stage,
        )
        position = set_up_stage(position, chance=chance.fold_in(1))
        return State(position, empty_history(environment.config, position))

    return environment.from_games(jax.vmap(one)(keys))


class SpeedCurve:
    """The speed of play by number of games, from the first stage on and at a late stage."""

    def __init__(
        self,
        environment: HackMatrix,
        largest: int,
        *,
        mesh: Mesh,
        repeats: int,
        seed: int = 0,
        late_stage: int = LATE_STAGE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._environment, self._mesh, self._clock = environment, mesh, clock
        self._repeats, self._seed, self._late_stage = repeats, seed, late_stage
        begin = jax.jit(lambda keys, stage: games_at_stage(environment, keys, stage))
        # Compiled once, for the largest number: a game depends only on its own key.
        keys = env_keys(jax.random.key(seed), largest)
        self._starts = []
        for stage in (1, late_stage):
            state, timestep = begin(keys, jnp.int32(stage))
            self._starts.append((state, timestep.mask))

    def points(self, num_envs: int) -> tuple[Point, Point]:
        """Two points, from stage 1 on and at the late stage, measured by the same compiled program.

        Games from stage 1 continue from run to run, after one run that is not measured. Late
        games start again for each run. A late run is timed after their enemies have arrived,
        and is short: `Point.restarted` is the share of games that ended in it.
        """
        first_games = operator.itemgetter(slice(num_envs))
        young, late = (jax.tree.map(first_games, start) for start in self._starts)
        play = RandomPlay(
            self._environment, *young, mesh=self._mesh, seed=self._seed, clock=self._clock
        )
        steps = min(max(ALL_STEPS // num_envs, STEPS[0]), STEPS[1])
        play.run(steps)
        play.clear()
        runs = [play.run(steps) for _ in range(self._repeats)]
        first = _point(play, runs, num_envs, stage=1, steps=steps)
        play.clear()
        runs = []
        for _ in range(self._repeats):
            play.begin(*late)
            play.run(ARRIVAL_STEPS)
            runs.append(play.run(LATE_STEPS))
        return first, _point(play, runs, num_envs, stage=self._late_stage, steps=LATE_STEPS)


def bytes_a_game(environment: HackMatrix) -> int:
    """Bytes of the state of one game with its history."""
    state, _ = jax.eval_shape(
        environment.reset, jax.eval_shape(lambda: env_keys(jax.random.key(0), 1))
    )
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def _point(
    play: RandomPlay, runs: Sequence[float], num_envs: int, *, stage: int, steps: int
) -> Point:
    tally = play.tally
    return Point(
        num_envs=num_envs,
        stage=stage,
        steps=steps,
        speed=Speed(tuple(runs), play.compile_seconds),
        memory=play.memory,
        checksum=int(tally.checksum),
        dropped_spawns=int(tally.dropped),
        episodes=int(tally.episodes),
    )
