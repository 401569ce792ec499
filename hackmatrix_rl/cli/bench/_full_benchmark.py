"""The full benchmark of a machine, part by part: `bench --full`."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.cli.bench._benchmark import train_speed
from hackmatrix_rl.cli.bench._environment_speed import RandomPlay, Speed
from hackmatrix_rl.env import HackMatrix, HackMatrixState, Timestep, env_keys
from hackmatrix_rl.games.hackmatrix import (
    FIRST_INTERVAL,
    GameStream,
    State,
    blank_position,
    empty_history,
    set_up_stage,
)
from hackmatrix_rl.runs import check_alone, checked_memory, compose, make_mesh, training_keys
from hackmatrix_rl.runs.config import TrainConfig
from hackmatrix_rl.system import available_memory, bytes_of, chosen_devices
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.system.errors import ConfigError

LATE_STAGE = 6
ARRIVAL_STEPS, LATE_STEPS = 2, 6
"""Steps of each late game: until its enemies arrive, and then in a run. The run is short,
because random play soon loses and continues in stage 1."""
ALL_STEPS = 2**17
"""Total steps of all games in a run."""
STEPS = (32, 512)
"""Fewest and most steps of each game in a run."""

PRECISIONS = ("f32", "bf16")
TRAINED_FROM = 1024
"""The smallest number of games for a measurement of training."""
COPIES = 4
"""Copies of all games in memory: both starts, the current games, and the next start."""
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


@dataclass(frozen=True)
class Part:
    """One measurement: `env`, `late` (games that start at a late stage) or `train`.

    After a `failure`, which is the cause in words, `speed` is `None`. `figures` are further results
    by name; `memory` is in bytes per device.
    """

    name: str
    num_envs: int
    precision: str | None = None
    speed: Speed | None = None
    failure: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The displayed name: `train bf16 1,024`."""
        return " ".join(filter(None, (self.name, self.precision, f"{self.num_envs:,}")))

    @property
    def memory(self) -> int | None:
        """Bytes of the program per device; `None` if unknown."""
        return self.figures.get("memory")

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --full --json`."""
        named = {"part": self.name, "num_envs": self.num_envs, "precision": self.precision}
        found = {} if self.speed is None else self.speed.as_dict()
        return named | {"failure": self.failure} | dict(self.figures) | found


def games_at_stage(
    environment: HackMatrix, keys: Key[Array, " num_envs"], stage: Int32[Array, ""]
) -> tuple[HackMatrixState, Timestep]:
    """New games that start at a given stage, 1 to 8, one for each key."""

    def one(key: Key[Array, ""]) -> State:
        chance = Chance.from_key(key)
        position = replace(
            blank_position(environment.config, chance=chance.fold_in(GameStream.PLAYER)),
            stage=stage,
            scheduled_task_interval=FIRST_INTERVAL + 1 - stage,
        )
        position = set_up_stage(position, chance=chance.fold_in(GameStream.STAGE))
        return State(position, empty_history(environment.config, position))

    return environment.from_games(jax.vmap(one)(keys))


class SpeedCurve:
    """The speed of play by number of games, from stage 1 and at a late stage."""

    def __init__(
        self,
        environment: HackMatrix,
        largest: int,
        *,
        mesh: Mesh,
        repeats: int,
        seed: int = 0,
        late_stage: int = LATE_STAGE,
    ) -> None:
        self._environment, self._mesh = environment, mesh
        self._repeats, self._seed, self._late_stage = repeats, seed, late_stage
        begin = jax.jit(lambda keys, stage: games_at_stage(environment, keys, stage))
        # Compiled once, for the largest number: a game depends only on its key.
        keys = env_keys(jax.random.key(seed), largest)
        self._starts = []
        for stage in (1, late_stage):
            state, timestep = begin(keys, jnp.int32(stage))
            self._starts.append((state, timestep.mask))

    def parts(
        self, num_envs: int, *, compiled: Callable[[], None] = lambda: None
    ) -> tuple[Part, ...]:
        """Two parts, from stage 1 and at the late stage, measured with the same compiled program.

        Games from stage 1 continue from run to run, after one warm-up. Late games are restarted for
        each run. A late run is short and is timed after the enemies have arrived; `episodes` counts
        the games that ended in all runs. `compiled` is called after compilation.
        """
        first_games = operator.itemgetter(slice(num_envs))
        young, late = (jax.tree.map(first_games, start) for start in self._starts)
        play = RandomPlay(self._environment, *young, mesh=self._mesh, seed=self._seed)
        compiled()

        def part(name: str, stage: int, steps: int, runs: Sequence[float]) -> Part:
            figures = {
                "stage": stage,
                "steps": steps,
                "memory": play.memory,
                "checksum": int(play.tally.checksum),
                "dropped_spawns": int(play.tally.dropped),
                "episodes": int(play.tally.episodes),
            }
            speed = Speed(tuple(runs), play.compile_seconds)
            return Part(name, num_envs, speed=speed, figures=figures)

        steps = min(max(ALL_STEPS // num_envs, STEPS[0]), STEPS[1])
        play.run(steps)
        play.clear()
        runs = [play.run(steps) for _ in range(self._repeats)]
        first = part("env", 1, steps, runs)
        play.clear()
        runs = []
        for _ in range(self._repeats):
            play.begin(*late)
            play.run(ARRIVAL_STEPS)
            runs.append(play.run(LATE_STEPS))
        return first, part("late", self._late_stage, LATE_STEPS, runs)


def default_sizes() -> tuple[int, ...]:
    """Powers of 4 from 64 to 16,384 on a CPU, and to 65,536 on other devices."""
    last = 7 if chosen_devices()[0].platform == "cpu" else 8
    return tuple(4**power for power in range(3, last + 1))


def check_sizes(config: TrainConfig, sizes: Sequence[int]) -> None:
    """Raises a ConfigError unless everything can be measured with these numbers of games."""
    check_alone(config, "bench")
    try:
        meshes = [make_mesh(config.with_games(size)) for size in trained_sizes(sizes)]
    except ConfigError as error:
        raise ConfigError(str(error).replace("--num-envs", "--sizes")) from error
    devices = meshes[-1].size
    for size in sizes:
        if size % devices:
            raise ConfigError(
                f"--sizes {size} does not divide over {devices} devices. Use multiples of {devices}"
                ", or a smaller --mesh."
            )


def trained_sizes(sizes: Sequence[int]) -> list[int]:
    """The numbers of games for measurements of training."""
    return [size for size in sizes if size >= TRAINED_FROM] or [max(sizes)]


def full_benchmark(config: TrainConfig, sizes: Sequence[int], *, repeats: int) -> Iterator[Part]:
    """Measures the environment by number of games, also at a late stage, and then training.

    Training is measured in each of `PRECISIONS` with each of `trained_sizes`. A part that runs out
    of memory has a failure, and the next part follows.
    """
    yield from _environment_parts(config, sizes, repeats)
    for size in trained_sizes(sizes):
        for precision in PRECISIONS:
            yield _train_part(replace(config.with_games(size), precision=precision), repeats)


def _environment_parts(config: TrainConfig, sizes: Sequence[int], repeats: int) -> Iterator[Part]:
    environment = config.environment()
    if not isinstance(environment, HackMatrix):
        raise ConfigError(f"--full measures HackMatrix, not --env {config.env}. Leave one out.")
    devices = make_mesh(config.with_games(max(sizes)))
    keys = jax.eval_shape(lambda: env_keys(jax.random.key(0), 1))
    state, _ = jax.eval_shape(environment.reset, keys)
    each = COPIES * bytes_of(state)
    room = available_memory()
    fitting = [size for size in sizes if room is None or each * size <= room[0]]
    if fitting:
        curve = SpeedCurve(
            environment, max(fitting), mesh=devices, repeats=repeats, seed=config.seed
        )
    for size in sizes:
        if size not in fitting:
            yield Part("env", size, failure=f"needs {each * size:,} bytes of memory")
            continue
        try:
            parts = curve.parts(size)
        except jax.errors.JaxRuntimeError as error:
            parts = (Part("env", size, failure=_out_of_memory(error)),)
        yield from parts


def _train_part(config: TrainConfig, repeats: int) -> Part:
    part = Part("train", config.num_envs, config.precision)
    trainer = compose(config)
    try:
        checked_memory(config, trainer)
    except ConfigError as error:
        return replace(part, failure=str(error))
    try:
        trainer.start(training_keys(config))
        speed = train_speed(trainer, config, repeats)
    except jax.errors.JaxRuntimeError as error:
        return replace(part, failure=_out_of_memory(error))
    return replace(part, speed=speed, figures={"memory": trainer.program_memory()})


def _out_of_memory(error: jax.errors.JaxRuntimeError) -> str:
    """The cause of an out-of-memory error; other errors are reraised."""
    if OUT_OF_MEMORY not in str(error):
        raise error
    return str(error).splitlines()[0]
