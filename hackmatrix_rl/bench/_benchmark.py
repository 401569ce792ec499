"""The speed of a machine: environment, learning, and whole updates."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from hackmatrix_rl.bench._environment_speed import RandomPlay, Speed, speed_of
from hackmatrix_rl.config import RolloutConfig, TrainConfig
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.runs import compose, run_keys, versions
from hackmatrix_rl.system import peak_memory
from hackmatrix_rl.training import Trainer, compiler_options


@dataclass(frozen=True)
class Benchmark:
    """The results of a benchmark.

    Attributes:
        speeds: speeds by name: `env`, `update`, `train`.
        checksum: checksum of all observations, masks and rewards of the env runs.
        dropped_spawns: spawns without room, in the games that ended during the env runs.
        env_episodes: number of these games.
        peak_memory_bytes: peak memory of the device; on a CPU, of the process.
        sizes: settings that change the speed.
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
            "device": dict(self.device),
            "versions": dict(self.versions),
            "sizes": dict(self.sizes),
        }


def benchmark(
    config: TrainConfig, *, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> Benchmark:
    """Measures speed with the sizes of a run: capacities, number of games, network."""
    network_key, training_key = run_keys(config.seed)
    trainer = compose(config, key=network_key)
    trainer.start(training_key)
    environment = trainer.environment
    games, timestep = jax.jit(environment.reset)(env_keys(training_key, config.num_envs))
    play = RandomPlay(
        environment, games, timestep.mask, mesh=trainer.mesh, seed=config.seed, clock=clock
    )
    steps = config.steps_of_each * config.updates_per_dispatch
    speeds = {"env": speed_of(play, steps=steps, repeats=repeats)}
    tally = play.tally
    if (update := _learning_speed(trainer, config, repeats, clock)) is not None:
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
        sizes=chosen_sizes(config, GAME_SIZES + LEARNING_SIZES)
        | ({"num_minibatches": config.minibatches} if isinstance(config, RolloutConfig) else {}),
    )


GAME_SIZES = ("max_steps", "max_enemies", "max_transmissions", "history", "num_envs")
LEARNING_SIZES = (
    "num_steps",
    "updates_per_dispatch",
    "network",
    "width",
    "depth",
    "precision",
    "update_epochs",
    "grad_accum",
    "remat",
)


def chosen_sizes(config: TrainConfig, names: Sequence[str]) -> dict[str, Any]:
    """The named settings of a config, without those that are `None`."""
    every = config.as_dict()
    return {name: every[name] for name in names if every.get(name) is not None}


def _learning_speed(
    trainer: Trainer[Any], config: TrainConfig, repeats: int, clock: Callable[[], float]
) -> Speed | None:
    """Measures an update without collecting; `None` for an algorithm that cannot do so."""
    state = trainer.state
    learn = trainer.algorithm.learning_only(state)
    if learn is None:
        return None
    arrays, rest = eqx.partition((learn, state), eqx.is_array)

    def program(arrays: Any) -> Any:
        learn, state = eqx.combine(arrays, rest)
        return eqx.filter(learn(state), eqx.is_array)

    began = clock()
    compiled = jax.jit(program).lower(arrays).compile(compiler_options(trainer.mesh))
    compile_seconds = clock() - began
    speeds = []
    for _ in range(repeats):
        began = clock()
        jax.block_until_ready(compiled(arrays))
        speeds.append(config.batch / (clock() - began))
    return Speed(tuple(speeds), compile_seconds)


def train_speed(trainer: Trainer[Any], config: TrainConfig, repeats: int) -> Speed:
    """Whole dispatches, as training does them, after one that is not measured."""
    compile_seconds = trainer.compile()
    trainer.dispatch(config.updates_per_dispatch)
    runs = [trainer.dispatch(config.updates_per_dispatch) for _ in range(repeats)]
    return Speed(tuple(run.steps_per_second for run in runs), compile_seconds)


def device_of(mesh: Mesh) -> dict[str, Any]:
    """The devices of a mesh, for a report."""
    first = mesh.devices.flat[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": mesh.size}
