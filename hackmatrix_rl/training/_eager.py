"""Updates that run operation by operation instead of as one compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.env import Environment, EnvSpec, Timestep
from hackmatrix_rl.training._algorithm import Algorithm
from hackmatrix_rl.training._program import Program


def eager_program(algorithm: Algorithm[Any]) -> Program:
    """A program that runs each operation alone, so breakpoints and `print` work.

    Args:
        algorithm: on one device.

    Returns:
        A function from a state and a number of updates to the next state and the sum of the
        reports.

    Raises:
        ValueError: the algorithm cannot run so.
    """
    update = algorithm.eager()

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

    A step of a game is thousands of operations.

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
