"""The speed of a machine: environment, learning, and whole updates."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.agent import (
    Collector,
    CollectorState,
    Rollout,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.bench._environment_speed import (
    RandomPlay,
    Speed,
    speed_of,
)
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import Environment
from hackmatrix_rl.runs import (
    compose,
    run_keys,
    versions,
)
from hackmatrix_rl.system import peak_memory
from hackmatrix_rl.training import Trainer, compiler_options
from hackmatrix_rl.training.sharding import specs_of


@dataclass(frozen=True)
class Benchmark:
    """The results of a benchmark.

    Attributes:
        speeds: speeds by name: `env`, `update`, `train`.
        checksum: checksum of all observations, masks and rewards of the env runs.
        dropped_spawns: spawns without room, in the games that ended during the env runs.
        env_episodes: number of these games.
        peak_memory_bytes: peak memory of the device; on a CPU, of the process.
        device: kind, platform and number of the devices.
        versions: versions of the packages.
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
    """Measures speed with the sizes of a run: capacities, number of games, network.

    Args:
        config: the settings with the sizes.
        repeats: runs of each measurement.
        clock: seconds since some moment.
    """
    network_key, training_key = run_keys(config.seed)
    trainer = compose(config, key=network_key)
    trainer.start(training_key)
    actors = trainer.state.actors
    play = RandomPlay(
        trainer.environment,
        actors.environment,
        actors.mask,
        mesh=trainer.mesh,
        seed=config.seed,
        clock=clock,
    )
    env = speed_of(play, steps=config.num_steps * config.updates_per_dispatch, repeats=repeats)
    tally = play.tally
    update = _bench_update(trainer, config, repeats, clock)
    train = train_speed(trainer, config, repeats)
    return Benchmark(
        speeds={"env": env, "update": update, "train": train},
        checksum=int(tally.checksum),
        dropped_spawns=int(tally.dropped),
        env_episodes=int(tally.episodes),
        peak_memory_bytes=peak_memory(),
        device=device_of(trainer.mesh),
        versions=versions(),
        sizes=chosen_sizes(config, GAME_SIZES + LEARNING_SIZES)
        | {"num_minibatches": config.minibatches},
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
    return {name: every[name] for name in names if every[name] is not None}


class Replayed(Collector):
    """Returns a stored rollout instead of collecting one."""

    num_steps: int = eqx.field(static=True)
    terms: tuple[str, ...] = eqx.field(static=True)
    keep_log_probs: bool = eqx.field(static=True)
    rollout: Rollout
    actors: CollectorState

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        """The state after the rollout."""
        return self.actors

    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        actors: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        """The stored rollout."""
        return self.rollout, self.actors


def _bench_update(
    trainer: Trainer[PPO], config: TrainConfig, repeats: int, clock: Callable[[], float]
) -> Speed:
    """Measures an update without collecting: advantages, and all epochs of minibatches.

    The rollout is empty (its numbers are 0, every action is legal), so no second collector is
    compiled. The time of learning does not depend on the games, except for the network `mlp`:
    it is faster on empty boards, so compare its whole updates.
    """
    update, state = trainer.algorithm, trainer.state
    shapes = eqx.filter_eval_shape(
        update.collect, state.learner.policy, update.environment, state.actors
    )
    rollout = Rollout(
        **{
            name: _zeros(getattr(shapes[0], name), spec, trainer.mesh)
            for name, spec in specs_of(Rollout.environment_axes()).items()
        }
    )
    rollout = eqx.tree_at(lambda r: r.mask, rollout, jnp.ones_like(rollout.mask))
    kept = update.collect.terms, update.collect.keep_log_probs
    collect = Replayed(config.num_steps, *kept, rollout=rollout, actors=state.actors)
    learn = eqx.tree_at(lambda ppo: ppo.collect, update, collect)
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


def _zeros(shapes: PyTree, spec: PartitionSpec, mesh: Mesh) -> PyTree[Array]:
    sharding = NamedSharding(mesh, spec)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=sharding), shapes)


def train_speed(trainer: Trainer[PPO], config: TrainConfig, repeats: int) -> Speed:
    """Whole dispatches, as training does them.

    Args:
        trainer: a started trainer.
        config: the settings of the trainer.
        repeats: number of measured dispatches, after one that is not measured.
    """
    compile_seconds = trainer.compile()
    trainer.dispatch(config.updates_per_dispatch)
    runs = [trainer.dispatch(config.updates_per_dispatch) for _ in range(repeats)]
    return Speed(tuple(run.steps_per_second for run in runs), compile_seconds)


def device_of(mesh: Mesh) -> dict[str, Any]:
    """The devices of a mesh, for a report."""
    first = mesh.devices.flat[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": mesh.size}
