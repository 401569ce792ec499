"""The speed of a machine: environment, learning, full updates, and a pgx game for comparison."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from hackmatrix_rl.cli.bench._environment_speed import RandomPlay, Speed, in_turns
from hackmatrix_rl.env import Environment, env_keys
from hackmatrix_rl.interop.adapters import from_pgx
from hackmatrix_rl.runs import (
    check_alone,
    check_played,
    checked_memory,
    compose,
    make_mesh,
    training_keys,
    versions,
)
from hackmatrix_rl.runs.config import RolloutConfig, TrainConfig
from hackmatrix_rl.system import peak_memory
from hackmatrix_rl.training import LearnsAlone, Trainer, Utilization, compiler_options
from hackmatrix_rl.training.compiled import operations

GAME_SIZES = ("max_steps", "max_enemies", "max_transmissions", "history", "num_envs")
LEARNING_SIZES = (
    *("num_steps", "updates_per_dispatch", "network", "width", "depth", "precision"),
    *("update_epochs", "grad_accum", "remat"),
)
PGX_GAME = "minatar-asterix"
STEPS = 128
"""Steps of each game in a run."""


@dataclass(frozen=True)
class Benchmark:
    """The results of a benchmark: `speeds` by name (`env`, `update`, `train`).

    `checksum` covers all observations, masks and rewards of the env runs. `dropped_spawns` counts
    the spawns without a free slot in the `env_episodes` games that ended in these runs. The peak
    memory is the device's; on a CPU, the process's. `sizes` are the settings that affect speed.
    """

    speeds: Mapping[str, Speed]
    checksum: int
    dropped_spawns: int
    env_episodes: int
    peak_memory_bytes: int
    device: Mapping[str, Any]
    versions: Mapping[str, str]
    sizes: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --json`."""
        parts: dict[str, Any] = {name: speed.as_dict() for name, speed in self.speeds.items()}
        parts["env"] |= {
            "checksum": self.checksum,
            "dropped_spawns": self.dropped_spawns,
            "episodes": self.env_episodes,
        }
        return parts | {
            "peak_memory_bytes": self.peak_memory_bytes,
            "device": self.device,
            "versions": self.versions,
            "sizes": self.sizes,
        }


def benchmark(config: TrainConfig, *, repeats: int) -> Benchmark:
    """Measures speed with the settings of a run: capacities, number of games, network."""
    check_alone(config, "bench")
    trainer, training_key = compose(config), training_keys(config)
    checked_memory(config, trainer)
    trainer.start(training_key)
    environment = trainer.environment
    games, timestep = jax.jit(environment.reset)(env_keys(training_key, config.num_envs))
    play = RandomPlay(environment, games, timestep.mask, mesh=trainer.mesh, seed=config.seed)
    steps = config.steps_of_each * config.updates_per_dispatch
    speeds = in_turns({"env": play}, steps=steps, repeats=repeats)
    tally = play.tally
    if (update := _learning_speed(trainer, config, repeats)) is not None:
        speeds["update"] = update
    speeds["train"] = train_speed(trainer, config, repeats)
    return Benchmark(
        speeds=speeds,
        checksum=int(tally.checksum),
        dropped_spawns=int(tally.dropped),
        env_episodes=int(tally.episodes),
        peak_memory_bytes=peak_memory(),
        device=device_of(trainer.mesh),
        versions=versions(),
        sizes={"num_steps": config.steps_of_each}
        | chosen_sizes(config, GAME_SIZES + LEARNING_SIZES)
        | ({"num_minibatches": config.minibatches} if isinstance(config, RolloutConfig) else {}),
    )


def chosen_sizes(config: TrainConfig, names: Sequence[str]) -> dict[str, Any]:
    """The named settings of a config, without those that are `None`."""
    every = config.as_dict()
    return {name: every[name] for name in names if every.get(name) is not None}


def _learning_speed(trainer: Trainer[Any], config: TrainConfig, repeats: int) -> Speed | None:
    """Measures an update without its rollout; `None` for an algorithm that does not allow it."""
    state, algorithm = trainer.state, trainer.algorithm
    learn = algorithm.learning_only(state) if isinstance(algorithm, LearnsAlone) else None
    if learn is None:
        return None
    arrays, rest = eqx.partition((learn, state), eqx.is_array)

    def program(arrays: Any) -> Any:
        learn, state = eqx.combine(arrays, rest)
        return eqx.filter(learn(state), eqx.is_array)

    began = time.perf_counter()
    traced = jax.jit(program).trace(arrays)
    compiled = traced.lower().compile(compiler_options(trainer.mesh))
    compile_seconds = time.perf_counter() - began
    speeds = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(compiled(arrays))
        speeds.append(config.batch / (time.perf_counter() - began))
    used = Utilization.of(operations(traced.jaxpr), trainer.mesh)
    return _with_mfu(Speed(tuple(speeds), compile_seconds), used, config.batch)


def train_speed(trainer: Trainer[Any], config: TrainConfig, repeats: int) -> Speed:
    """Measures full dispatches of training, after one warm-up."""
    compile_seconds = trainer.compile()
    trainer.dispatch(config.updates_per_dispatch)
    runs = [trainer.dispatch(config.updates_per_dispatch) for _ in range(repeats)]
    speed = Speed(tuple(run.steps_per_second for run in runs), compile_seconds)
    return _with_mfu(speed, trainer.utilization(), trainer.batch_size)


def _with_mfu(speed: Speed, used: Utilization, batch: int) -> Speed:
    """A speed of updates with `batch` environment steps, and its share of the devices' peak."""
    return replace(speed, mfu=used.share(speed.median / batch), unknown=used.unknown)


def device_of(mesh: Mesh) -> dict[str, Any]:
    """The devices of a mesh, for a report."""
    first = mesh.devices.flat[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": mesh.size}


@dataclass(frozen=True)
class SpeedComparison:
    """The speeds of two environments, measured alternately, HackMatrix first.

    `ratios` are HackMatrix's speed divided by the other's, for each pair of consecutive runs.
    `checksums` (of all observations, masks and rewards) and `episodes` (games that ended) are by
    name, `dropped_spawns` is HackMatrix's, and `sizes` are the settings that affect speed.
    """

    speeds: dict[str, Speed]
    ratios: tuple[float, ...]
    checksums: dict[str, int]
    dropped_spawns: int
    episodes: dict[str, int]
    device: dict[str, Any]
    versions: dict[str, str]
    sizes: dict[str, Any]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --compare pgx --json`."""
        environments = {
            name: speed.as_dict()
            | {"checksum": self.checksums[name], "episodes": self.episodes[name]}
            for name, speed in self.speeds.items()
        }
        environments["env"]["dropped_spawns"] = self.dropped_spawns
        span = {"min": min(self.ratios), "max": max(self.ratios)}
        return environments | {
            "ratio": self.ratio,
            "ratios": span | {"pairs": list(self.ratios)},
            "device": self.device,
            "versions": self.versions,
            "sizes": self.sizes,
        }


def compare_with_pgx(config: TrainConfig, *, repeats: int) -> SpeedComparison:
    """Measures random play of HackMatrix and of a pgx game alternately.

    Both have the same number of games on the same devices, and a checksum over the results of
    every step. HackMatrix is compiled with the options of training, pgx with JAX's defaults.
    """
    name = f"pgx {PGX_GAME}"
    environments: dict[str, Environment] = {"env": config.environment(), name: from_pgx(PGX_GAME)}
    devices = make_mesh(config)
    check_played(config.environment(), math.ceil(config.num_envs / devices.size))
    keys = env_keys(jax.random.key(config.seed), config.num_envs)
    plays = {}
    for each, environment in environments.items():
        state, timestep = jax.jit(environment.reset)(keys)
        plays[each] = RandomPlay(
            environment,
            state,
            timestep.mask,
            mesh=devices,
            seed=config.seed,
            # The options of training are tuned for this package; JAX's defaults are faster for pgx.
            options=None if each == "env" else {},
        )
    speeds = in_turns(plays, steps=STEPS, repeats=repeats)
    tallies = {each: play.tally for each, play in plays.items()}
    return SpeedComparison(
        speeds=speeds,
        ratios=speeds["env"].ratios_to(speeds[name]),
        checksums={each: int(tally.checksum) for each, tally in tallies.items()},
        dropped_spawns=int(tallies["env"].dropped),
        episodes={each: int(tally.episodes) for each, tally in tallies.items()},
        device=device_of(devices),
        versions=versions(),
        sizes=chosen_sizes(config, GAME_SIZES) | {"num_steps": STEPS},
    )
