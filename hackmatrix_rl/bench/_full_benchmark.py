"""The full benchmark of a machine, part by part: `bench --full`."""

import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.batching import Chance
from hackmatrix_rl.bench._benchmark import train_speed
from hackmatrix_rl.bench._environment_speed import RandomPlay, Speed
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import HackMatrix, HackMatrixState, Timestep, env_keys
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.game import FIRST_INTERVAL, State, blank_position, empty_history, set_up_stage
from hackmatrix_rl.runs import compose, estimate_memory, make_mesh, run_keys
from hackmatrix_rl.system import available_memory, bytes_of, chosen_devices

LATE_STAGE = 6
ARRIVAL_STEPS, LATE_STEPS = 2, 6
"""Steps of each late game: until its enemies arrive, and then in a run. The run is short,
because random play soon loses and continues in stage 1."""
ALL_STEPS = 2**17
"""Steps of all games together in a run, within the limits below."""
STEPS = (32, 512)

PRECISIONS = ("f32", "bf16")
TRAINED_FROM = 1024
"""The least number of games for a measurement of training."""
COPIES = 4
"""Copies of all games in memory: both starts, the playing games, and the next start."""
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


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
    return bytes_of(state)


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


@dataclass(frozen=True)
class Part:
    """One measurement.

    Attributes:
        name: `env`, `late` (games that start at a late stage) or `train`.
        precision: precision of the training.
        speed: the runs; `None` after a failure.
        figures: further figures by name; memory in bytes on each device.
    """

    name: str
    num_envs: int
    precision: str | None = None
    speed: Speed | None = None
    failure: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name for people: `train bf16 1,024`."""
        return " ".join(filter(None, (self.name, self.precision, f"{self.num_envs:,}")))

    @property
    def memory(self) -> int | None:
        """Bytes of the program on each device; `None` if unknown."""
        return self.figures.get("memory")

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --full --json`."""
        named = {"part": self.name, "num_envs": self.num_envs, "precision": self.precision}
        found = {} if self.speed is None else self.speed.as_dict()
        return named | {"failure": self.failure} | dict(self.figures) | found


def default_sizes() -> tuple[int, ...]:
    """Powers of 4 from 64: to 16,384 on a CPU, to 65,536 on other devices."""
    last = 7 if chosen_devices()[0].platform == "cpu" else 8
    return tuple(4**power for power in range(3, last + 1))


def check_sizes(config: TrainConfig, sizes: Sequence[int]) -> None:
    """Checks that everything can be measured with these numbers of games.

    Raises:
        ConfigError: the games do not divide over devices or minibatches.
    """
    try:
        meshes = [make_mesh(replace(config, num_envs=size)) for size in trained_sizes(sizes)]
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


def full_benchmark(
    config: TrainConfig,
    sizes: Sequence[int],
    *,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Part]:
    """Measures the environment by number of games, also at a late stage, then training.

    Training is measured in each of `PRECISIONS` with each of `trained_sizes`. A part without
    enough memory reports its failure, and the others continue.
    """
    yield from _environment_parts(config, sizes, repeats, clock)
    for size in trained_sizes(sizes):
        for precision in PRECISIONS:
            yield _train_part(replace(config, num_envs=size, precision=precision), repeats)


def _environment_parts(
    config: TrainConfig, sizes: Sequence[int], repeats: int, clock: Callable[[], float]
) -> Iterator[Part]:
    environment = config.environment()
    if not isinstance(environment, HackMatrix):
        raise ConfigError(f"--full measures HackMatrix, not --env {config.env}. Leave one out.")
    devices = make_mesh(replace(config, num_envs=max(sizes)))
    each = COPIES * bytes_a_game(environment)
    room = available_memory()
    fitting = [size for size in sizes if room is None or each * size <= room[0]]
    if fitting:
        curve = SpeedCurve(
            environment, max(fitting), mesh=devices, repeats=repeats, seed=config.seed, clock=clock
        )
    for size in sizes:
        if size not in fitting:
            yield Part("env", size, failure=f"needs {each * size:,} bytes of memory")
            continue
        try:
            first, late = curve.points(size)
        except jax.errors.JaxRuntimeError as error:
            yield Part("env", size, failure=_out_of_memory(error))
            continue
        yield _part("env", first)
        yield _part("late", late)


def _part(name: str, point: Point) -> Part:
    figures = {
        each: value for each, value in vars(point).items() if each not in ("num_envs", "speed")
    }
    return Part(name, point.num_envs, speed=point.speed, figures=figures)


def _train_part(config: TrainConfig, repeats: int) -> Part:
    part = Part("train", config.num_envs, config.precision)
    network_key, training_key = run_keys(config.seed)
    try:
        trainer = compose(config, key=network_key)
    except ConfigError as error:  # far too many games; all other errors came before
        return replace(part, failure=str(error))
    room = available_memory()
    needed = estimate_memory(trainer).sure
    if room is not None and needed > room[0]:
        return replace(part, failure=f"needs {needed:,} bytes of memory")
    try:
        trainer.start(training_key)
        speed = train_speed(trainer, config, repeats)
    except jax.errors.JaxRuntimeError as error:
        return replace(part, failure=_out_of_memory(error))
    return replace(part, speed=speed, figures={"memory": trainer.program_memory()})


def _out_of_memory(error: jax.errors.JaxRuntimeError) -> str:
    """The reason for a report after memory ran out; other errors are raised again."""
    if OUT_OF_MEMORY not in str(error):
        raise error
    return str(error).splitlines()[0]
