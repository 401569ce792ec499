"""Environments of gymnax in this package."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.adapters._extras import as_they_expect, require
from hackmatrix_rl.env import Batched, Played, SingleGame


class GymnaxState(eqx.Module):
    """The state of one gymnax game, and the observation of its latest step, which may be drawn."""

    game: PyTree[Array]
    observation: PyTree[Array]


@final
class GymnaxGame(SingleGame[GymnaxState]):
    """A gymnax environment with discrete actions, of gymnax 1.0 or newer.

    A limit of steps truncates an episode; it does not terminate it.

    Source: Lange 2022, "gymnax: a JAX-based reinforcement learning environment library".
    """

    environment: Any = eqx.field(static=True)
    params: PyTree[Array]

    @property
    def num_actions(self) -> int:
        """The number of actions of the gymnax environment."""
        return int(self.environment.action_space(self.params).n)

    @property
    def truncates(self) -> bool:
        """Always true: gymnax limits the steps of every game."""
        return True

    def start(self, *, key: Key[Array, ""]) -> GymnaxState:
        """A new game."""
        with as_they_expect():
            seen, game = self.environment.reset_env(key, self.params)
        return GymnaxState(_strong(game), _strong(seen))

    def observe(self, state: GymnaxState) -> PyTree[Array]:
        """The observation of gymnax."""
        return state.observation

    def play(self, state: GymnaxState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """One step without gymnax's own reset."""
        with as_they_expect():
            seen, game, reward, terminated, _ = self.environment.step_env(
                key, state.game, action, self.params
            )
            truncated = self.environment.is_truncated(game, self.params)
        # A loop over steps needs the types that `start` gave.
        after = jax.tree.map(
            lambda new, old: jnp.asarray(new).astype(old.dtype), GymnaxState(game, seen), state
        )
        return Played(
            state=after,
            reward=jnp.asarray(reward).astype(jnp.float32),
            terminated=jnp.asarray(terminated).astype(bool),
            truncated=jnp.asarray(truncated).astype(bool),
        )


def _strong(tree: PyTree) -> PyTree[Array]:
    """Arrays in place of Python's numbers, with types that do not depend on what they meet."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)


def from_gymnax(
    name: str | Any, params: Any = None, *, max_steps: int | None = None, **settings: Any
) -> Batched[GymnaxState]:
    """A gymnax environment as an `Environment` of this package.

    Args:
        name: for `gymnax.make`, such as `"CartPole-v1"`; or an environment of gymnax.
        params: its parameters; `None` for the default ones.
        max_steps: a limit of steps; `None` for gymnax's own.
        settings: passed to `gymnax.make`.

    Raises:
        ConfigError: gymnax is not installed.
        ValueError: there is no such environment, its actions are not discrete, or gymnax is older
            than 1.0.
    """
    gymnax = require("gymnax", extra="gymnax", caller="from_gymnax")
    environment: Any = name
    default: Any = None
    if isinstance(name, str):
        known = list(gymnax.registered_envs)
        if name not in known:
            raise ValueError(f"gymnax has no environment {name!r}; it has {', '.join(known)}")
        environment, default = gymnax.make(name, **settings)
    elif settings:
        raise ValueError(
            f"{', '.join(settings)}: settings are for gymnax.make; give the name of an environment"
        )
    if not hasattr(environment, "is_truncated"):
        raise ValueError(
            f"{environment!r} does not tell truncation from termination; from_gymnax needs an "
            "environment of gymnax 1.0 or newer"
        )
    params = params if params is not None else default
    params = params if params is not None else environment.default_params
    space = environment.action_space(params)
    if not hasattr(space, "n"):
        raise ValueError(
            f"the actions of {environment.name} are {space!r}; this package needs discrete ones, "
            "such as those of CartPole-v1"
        )
    return Batched(GymnaxGame(environment, _strong(params)), max_steps=max_steps)
