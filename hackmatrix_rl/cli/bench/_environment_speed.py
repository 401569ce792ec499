"""The speed of an environment: random legal play, on a mesh."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env import Environment, Timestep, env_keys
from hackmatrix_rl.system.batching import Chance, random_bit
from hackmatrix_rl.training import compiler_options
from hackmatrix_rl.training.compiled import program_bytes
from hackmatrix_rl.training.sharding import BY_ENVIRONMENT, REPLICATED


@dataclass(frozen=True)
class Speed:
    """The runs of one measurement, without tracing and compilation.

    `mfu` is the median's share of the peak of the devices, if it is known; `unknown` says why it is
    not.
    """

    steps_per_second: tuple[float, ...]
    compile_seconds: float
    mfu: float | None = None
    unknown: str = ""

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.steps_per_second)

    @property
    def smallest(self) -> float:
        """The slowest run."""
        return min(self.steps_per_second)

    @property
    def largest(self) -> float:
        """The fastest run."""
        return max(self.steps_per_second)

    def ratios_to(self, other: "Speed") -> tuple[float, ...]:
        """The ratio of this speed to the other, for each pair of consecutive runs."""
        pairs = zip(self.steps_per_second, other.steps_per_second, strict=True)
        return tuple(mine / theirs for mine, theirs in pairs)

    def as_dict(self) -> dict[str, Any]:
        """The form of `bench --json`."""
        span = {"median": self.median, "min": self.smallest, "max": self.largest}
        runs = list(self.steps_per_second)
        found = {"steps_per_second": span | {"runs": runs}, "compile_seconds": self.compile_seconds}
        return found if self.mfu is None else {**found, "mfu": self.mfu}


class RandomPlayState(eqx.Module):
    """A checksum over all steps, and the numbers of dropped spawns and of episodes that ended."""

    checksum: UInt32[Array, "*devices"]
    dropped: Int32[Array, "*devices"]
    episodes: Int32[Array, "*devices"]

    def take(self, timestep: Timestep) -> "RandomPlayState":
        """Adds one step."""
        leaves = jax.tree.leaves((timestep.observation, timestep.mask))
        sums = [jnp.sum(leaf.astype(jnp.int32)).astype(jnp.uint32) for leaf in leaves]
        bits = jax.lax.bitcast_convert_type(jnp.sum(timestep.reward), jnp.uint32)
        dropped = timestep.episode.extra.get("dropped", jnp.zeros_like(timestep.reward))
        dropped = jnp.where(timestep.done, dropped, 0).astype(jnp.int32)
        return RandomPlayState(
            checksum=self.checksum * jnp.uint32(31) + sum(sums, start=bits),
            dropped=self.dropped + jnp.sum(dropped),
            episodes=self.episodes + jnp.sum(timestep.done.astype(jnp.int32)),
        )


def random_legal(
    mask: Bool[Array, "num_envs num_actions"], keys: Key[Array, " num_envs"]
) -> Int32[Array, " num_envs"]:
    """A uniformly random legal action for each game, of at most 32 actions."""
    # This must be cheap, because the environment is measured. The mask becomes one word, of which a
    # random set bit is chosen: [1 0 1 1] -> 0b1101. A cumulative sum took eight times as long.
    num_actions = mask.shape[1]
    if num_actions > 32:
        raise ValueError(f"random_legal supports at most 32 actions, not {num_actions}")
    places = np.uint32(1) << np.arange(num_actions, dtype=np.uint32)

    def one(mask: Bool[Array, " num_actions"], key: Key[Array, ""]) -> Int32[Array, ""]:
        legal = jnp.sum(jnp.where(mask, places, jnp.uint32(0)), dtype=jnp.uint32)
        return random_bit(legal, Chance.from_key(key).bits())

    return jax.vmap(one)(mask, keys)


class RandomPlay:
    """Random legal play with resets, compiled once and timed run by run.

    The games are sharded evenly over a mesh, without communication during play. By default the
    program is compiled with the options of training.
    """

    def __init__(
        self,
        environment: Environment,
        state: PyTree[Array],
        mask: Bool[Array, "num_envs num_actions"],
        *,
        mesh: Mesh,
        seed: int = 0,
        options: dict[str, str | bool] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._num_envs = mask.shape[0]
        self._by_environment = NamedSharding(mesh, BY_ENVIRONMENT)
        self._clock = clock
        self._played = 0
        keys = env_keys(jax.random.key(seed), self._num_envs)
        self._keys = jax.device_put(keys, self._by_environment)
        self._devices = mesh.size
        self.clear()
        self.begin(state, mask)
        began = clock()
        lowered = play_program(environment, mesh).lower(*self._arguments(1))
        self.program = lowered.compile(compiler_options(mesh) if options is None else options)
        self.compile_seconds = clock() - began
        self.memory = program_bytes(self.program)

    @property
    def tally(self) -> RandomPlayState:
        """The sums over all steps since the last `clear`."""
        return jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=leaf.dtype), self._tally)

    def begin(self, state: PyTree[Array], mask: Bool[Array, "num_envs num_actions"]) -> None:
        """Continues from a copy of other games; a run donates its games."""
        games = jax.device_put((state, mask), self._by_environment, may_alias=False)
        self._games = jax.block_until_ready(games)

    def clear(self) -> None:
        nothing = jnp.zeros(self._devices, jnp.int32)
        tally = RandomPlayState(nothing.astype(jnp.uint32), nothing, nothing)
        self._tally = jax.device_put(tally, self._by_environment, may_alias=False)

    def run(self, steps: int) -> float:
        """Plays `steps` of each game from the end of the last run; returns steps per second."""
        arguments = self._arguments(steps)
        began = self._clock()
        *self._games, self._tally = jax.block_until_ready(self.program(*arguments))
        seconds = self._clock() - began
        self._played += steps
        return steps * self._num_envs / seconds

    def _arguments(self, steps: int) -> tuple[Any, ...]:
        numbers = np.int32(self._played), np.int32(steps)
        return (*self._games, self._tally, self._keys, *numbers)


def play_program(environment: Environment, mesh: Mesh) -> Any:
    """A jitted function that plays random steps of all games and donates their state."""
    split = (BY_ENVIRONMENT,) * 3  # state, mask, tally
    return jax.jit(
        jax.shard_map(
            functools.partial(_play, environment),
            mesh=mesh,
            in_specs=(*split, BY_ENVIRONMENT, REPLICATED, REPLICATED),
            out_specs=split,
            check_vma=False,
        ),
        donate_argnums=(0, 1, 2),
        out_shardings=NamedSharding(mesh, BY_ENVIRONMENT),  # also for empty arrays
    )


def _play(
    environment: Environment,
    state: PyTree[Array],
    mask: Bool[Array, "num_envs num_actions"],
    tally: RandomPlayState,
    keys: Key[Array, " num_envs"],
    first: Int32[Array, ""],
    steps: Int32[Array, ""],
) -> tuple[PyTree[Array], Bool[Array, "num_envs num_actions"], RandomPlayState]:
    """Plays the steps `first`, `first + 1`, ... of one device's games."""

    def step(index: Int32[Array, ""], carry: Any) -> Any:
        state, mask, tally = carry
        here = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, index)
        pair = jax.vmap(jax.random.split)(here)
        state, timestep = environment.step(state, random_legal(mask, pair[:, 0]), pair[:, 1])
        return state, timestep.mask, tally.take(timestep)

    start = (state, mask, jax.tree.map(lambda leaf: leaf[0], tally))
    state, mask, tally = jax.lax.fori_loop(first, first + steps, step, start)
    return state, mask, jax.tree.map(lambda leaf: leaf[None], tally)


def in_turns(plays: Mapping[str, RandomPlay], *, steps: int, repeats: int) -> dict[str, Speed]:
    """Measures `plays` alternately, run by run, after one warm-up of each."""
    for play in plays.values():
        play.run(steps)
    rounds = [tuple(play.run(steps) for play in plays.values()) for _ in range(repeats)]
    runs = zip(*rounds, strict=True)
    return {
        name: Speed(of_one, play.compile_seconds)
        for (name, play), of_one in zip(plays.items(), runs, strict=True)
    }
