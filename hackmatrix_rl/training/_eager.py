"""Updates that run operation by operation instead of as one compiled program."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.env import Environment, EnvSpec, Timestep
from hackmatrix_rl.training._algorithm import Algorithm
from hackmatrix_rl.training._ppo import PPO
from hackmatrix_rl.training._program import Program
from hackmatrix_rl.training.sharding import ShardedCollector


def eager_program(algorithm: PPO) -> Program:
    """A program that runs each operation alone, so breakpoints and `print` work.

    The environment stays compiled, because a step of the game is thousands of operations.

    Args:
        algorithm: a PPO on one device.

    Returns:
        A function from a state and a number of updates to the next state and the sum of the
        reports.
    """
    collect = algorithm.collect
    if isinstance(collect, ShardedCollector):
        collect = collect.collect  # `shard_map` compiles what it maps
    update: Algorithm[Any] = dataclasses.replace(
        algorithm,
        environment=CompiledEnvironment(algorithm.environment),
        collect=collect,
    )

    def run(state: Any, count: int) -> tuple[Any, PyTree[Array]]:
        with jax.disable_jit():
            state, sums = update(state)
            for _ in range(count - 1):
                state, report = update(state)
                sums = jax.tree.map(jnp.add, sums, report)
        return state, sums

    return run


class CompiledEnvironment(Environment):
    """An environment that stays compiled inside `jax.disable_jit()`.

    Attributes:
        environment: the environment to compile.
    """

    environment: Environment

    @property
    def spec(self) -> EnvSpec:
        """The spec of the wrapped environment."""
        return self.environment.spec

    @property
    def truncates(self) -> bool:
        """Whether the wrapped environment truncates."""
        return self.environment.truncates

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PyTree[Array], Timestep]:
        """The wrapped environment's `reset`, compiled."""
        with jax.disable_jit(False):
            return _reset(self.environment, keys)

    def step(
        self,
        state: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        """The wrapped environment's `step`, compiled."""
        with jax.disable_jit(False):
            return _step(self.environment, state, actions, keys)


@eqx.filter_jit
def _reset(environment: Environment, keys: Any) -> Any:
    return environment.reset(keys)


@eqx.filter_jit
def _step(environment: Environment, state: Any, actions: Any, keys: Any) -> Any:
    return environment.step(state, actions, keys)
