"""How fast an environment is: random legal play, on a mesh."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env.environment import Environment, Timestep, env_keys
from hackmatrix_rl.training.mesh import BY_ENVIRONMENT


@dataclass(frozen=True)
class Speed:
    """Runs of one measurement.

    Attributes:
        steps_per_second: environment steps in a second, of each run.
        compile_seconds: tracing and compiling, which is in none of the runs.
    """

    steps_per_second: tuple[float, ...]
    compile_seconds: float

    @property
    def median(self) -> float:
        """The middle run."""
        return statistics.median(self.steps_per_second)

    @property
    def smallest(self) -> float:
        """The slowest run."""
        return min(self.steps_per_second)

    @property
    def largest(self) -> float:
        """The fastest run."""
        return max(self.steps_per_second)

    def as_dict(self) -> dict[str, Any]:
        """As `bench --json` writes it."""
        return {
            "steps_per_second": {
                "median": self.median,
                "min": self.smallest,
                "max": self.largest,
                "runs": list(self.steps_per_second),
            },
            "compile_seconds": self.compile_seconds,
        }


class Tally(eqx.Module):
    """What the steps of the env runs came to.

    Attributes:
        checksum: every number of every observation, mask and reward goes into it.
        dropped: spawns that found no room, in the episodes that ended.
        episodes: number of these episodes.
    """

    checksum: UInt32[Array, "*devices"]
    dropped: Int32[Array, "*devices"]
    episodes: Int32[Array, "*devices"]

    def take(self, timestep: Timestep) -> "Tally":
        """The tally with one step taken in."""
        leaves = jax.tree.leaves((timestep.observation, timestep.mask))
        sums = [jnp.sum(leaf.astype(jnp.int32)).astype(jnp.uint32) for leaf in leaves]
        bits = jax.lax.bitcast_convert_type(jnp.sum(timestep.reward), jnp.uint32)
        dropped = timestep.episode.extra["dropped"].astype(jnp.int32)
        return Tally(
            checksum=self.checksum * jnp.uint32(31) + sum(sums, start=bits),
            dropped=self.dropped + jnp.sum(jnp.where(timestep.done, dropped, 0)),
            episodes=self.episodes + jnp.sum(timestep.done.astype(jnp.int32)),
        )


def random_legal(
    mask: Bool[Array, "num_envs num_actions"], keys: Key[Array, " num_envs"]
) -> Int32[Array, " num_envs"]:
    """A uniformly random legal action for each game."""

    def one(mask: Bool[Array, " num_actions"], key: Key[Array, ""]) -> Int32[Array, ""]:
        bits = jax.random.bits(key, (), jnp.uint16).astype(jnp.int32)
        legal = mask.astype(jnp.int32)
        nth = (bits * jnp.sum(legal)) >> 16
        return jnp.argmax(jnp.cumsum(legal) > nth).astype(jnp.int32)

    return jax.vmap(one)(mask, keys)


def environment_speed(
    environment: Environment,
    state: PyTree[Array],
    mask: Bool[Array, "num_envs num_actions"],
    *,
    steps: int,
    repeats: int,
    mesh: Mesh,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Speed, Tally]:
    """Random legal play with resets; everything that a step returns is used.

    The games are split over the devices of a mesh, which exchange nothing while they play.

    Args:
        environment: to step.
        state: of the games to start from; given away.
        mask: their legal actions; given away.
        steps: of each game in a run.
        mesh: devices that share the games evenly.
        repeats: runs that count. One more comes first, which starts with young games.
        seed: of the actions and of all chance.
        clock: seconds since some moment.
    """
    num_envs = mask.shape[0]
    keys = env_keys(jax.random.key(seed), num_envs)

    def play(
        state: PyTree[Array], mask: Array, keys: Array, tally: Tally, first: Int32[Array, "one"]
    ) -> tuple[PyTree[Array], Array, Tally]:
        def step(carry: Any, index: Int32[Array, ""]) -> tuple[Any, None]:
            state, mask, tally = carry
            here = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, index)
            pair = jax.vmap(jax.random.split)(here)
            state, timestep = environment.step(state, random_legal(mask, pair[:, 0]), pair[:, 1])
            return (state, timestep.mask, tally.take(timestep)), None

        tally = jax.tree.map(lambda leaf: leaf[0], tally)
        indices = first[0] + jnp.arange(steps, dtype=jnp.int32)
        state, mask, tally = jax.lax.scan(step, (state, mask, tally), indices)[0]
        return state, mask, jax.tree.map(lambda leaf: leaf[None], tally)

    split = BY_ENVIRONMENT
    program = jax.jit(
        jax.shard_map(play, mesh=mesh, in_specs=split, out_specs=split, check_vma=False),
        donate_argnums=(0, 1, 3),
    )
    nothing = jnp.zeros(mesh.size, jnp.int32)
    tally = Tally(nothing.astype(jnp.uint32), nothing, nothing)
    carry = (state, mask, keys, tally, nothing)
    carry = jax.device_put(carry, NamedSharding(mesh, split))
    began = clock()
    compiled = program.lower(*carry).compile()
    compile_seconds = clock() - began
    speeds = []
    for repeat in range(repeats + 1):
        first = jax.device_put(nothing + repeat * steps, carry[4].sharding)
        began = clock()
        state, mask, tally = jax.block_until_ready(compiled(*carry[:4], first))
        speeds.append(steps * num_envs / (clock() - began))
        carry = (state, mask, carry[2], tally, first)
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=leaf.dtype), tally)
    return Speed(tuple(speeds[1:]), compile_seconds), total
