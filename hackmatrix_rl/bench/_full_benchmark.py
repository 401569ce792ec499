"""The full benchmark of a machine, part by part: `bench --full`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from hackmatrix_rl.bench._benchmark import train_speed
from hackmatrix_rl.bench._environment_speed import Speed
from hackmatrix_rl.bench._speed_curve import Point, SpeedCurve, bytes_a_game
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs import compose, estimate_memory, make_mesh, run_keys
from hackmatrix_rl.system import available_memory, chosen_devices

PRECISIONS = ("f32", "bf16")
TRAINED_FROM = 1024
"""The least number of games for a measurement of training."""
COPIES = 4
"""Copies of all games in memory: both starts, the playing games, and the next start."""
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


@dataclass(frozen=True)
class Part:
    """One measurement.

    Attributes:
        name: `env`, `late` (games that start at a late stage) or `train`.
        num_envs: number of games.
        precision: precision of the training.
        speed: the runs; `None` after a failure.
        failure: reason of the failure.
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

    Args:
        config: the settings except the number of games and the precision.
        sizes: numbers of games.
        repeats: runs of each part.
        clock: seconds since some moment.
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
