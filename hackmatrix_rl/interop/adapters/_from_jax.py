"""Environments of gymnax and pgx in this package, and its games in gymnax."""

from contextlib import suppress
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import Batched, HackMatrixGame, Played, SingleGame
from hackmatrix_rl.interop.adapters._extras import as_they_expect, making, no_such
from hackmatrix_rl.interop.adapters._foreign_pictures import figure_pixels, svg_pixels
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import instance


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

    @property
    def title(self) -> str:
        """The name of the gymnax environment."""
        return str(self.environment.name)

    def draw(self, state: GymnaxState) -> np.ndarray | None:
        """The figure of gymnax's own `render`, which few of its environments have."""
        render = getattr(self.environment, "render", None)
        if render is None:
            return None
        with as_they_expect():
            return figure_pixels(lambda: render(state.game, self.params))


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
            raise ValueError(no_such("gymnax has no environment", name, known))
        with making("gymnax"), as_they_expect():
            environment, default = gymnax.make(name, **settings)
    elif settings:
        raise ValueError(
            f"{', '.join(settings)}: settings are for gymnax.make; give the name of an environment"
        )
    if not hasattr(environment, "is_truncated"):
        raise ValueError(
            f"{type(environment).__name__} does not separate truncation from termination; "
            "from_gymnax needs an environment of gymnax 1.0 or newer"
        )
    params = params if params is not None else default
    params = params if params is not None else environment.default_params
    space = environment.action_space(params)
    if not hasattr(space, "n"):
        raise ValueError(
            f"the actions of {environment.name} are {space!r}; this package needs discrete "
            "ones, as in CartPole-v1"
        )
    return Batched(GymnaxGame(environment, _strong(params)), max_steps=max_steps)


def to_gymnax(game: SingleGame[Any] | None = None) -> tuple[Any, Any]:
    """A game for code that is written for gymnax 1.0, and its default parameters.

    Observations are vectors of features; `info["action_mask"]` and the environment's
    `action_mask(state)` hold the legal actions.

    Args:
        game: the game; by default HackMatrix with the classic observation.

    Returns:
        What `gymnax.make` returns: an environment, and its parameters.

    Raises:
        ConfigError: gymnax is not installed.
        TypeError: `game` is no `SingleGame`.
    """
    require("gymnax", extra="gymnax", caller="to_gymnax")
    from hackmatrix_rl.interop.adapters._gymnax_face import GymnaxFace

    game = HackMatrixGame() if game is None else game
    instance("game", game, SingleGame, "HackMatrixGame()")
    face = GymnaxFace(game)
    return face, face.default_params


@final
class PgxGame(SingleGame[Any]):
    """A game of pgx for one player. Its state is pgx's own. An illegal action ends the game.

    Source: Koyamada et al. 2023, "Pgx: hardware-accelerated parallel game simulators for
    reinforcement learning".
    """

    game: Any = eqx.field(static=True)

    @property
    def num_actions(self) -> int:
        """The number of actions of the pgx game."""
        return int(self.game.num_actions)

    @property
    def truncates(self) -> bool:
        """Always true: pgx does not say whether a game truncates."""
        return True

    def start(self, *, key: Key[Array, ""]) -> Any:
        """A new game."""
        with as_they_expect():
            return self.game.init(key)

    def observe(self, state: Any) -> PyTree[Array]:
        """The observation of pgx."""
        return state.observation

    def legal(self, state: Any) -> Bool[Array, " num_actions"]:
        """The legal actions; all at the end of a game."""
        legal: Array = state.legal_action_mask
        return legal

    def play(self, state: Any, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """One step of pgx."""
        with as_they_expect():
            after = self.game.step(state, action, key)
        return Played(after, jnp.ravel(after.rewards)[0], after.terminated, after.truncated)

    @property
    def title(self) -> str:
        """The name of the pgx game."""
        return str(self.game.id)

    def draw(self, state: Any) -> np.ndarray | None:
        """The picture of pgx, which draws in SVG; `None` for a game that it does not draw."""
        # pgx raises these for a game that it does not draw.
        with as_they_expect(), suppress(AssertionError, NotImplementedError):
            return svg_pixels(state.to_svg())
        return None


def from_pgx(name: str | Any, *, max_steps: int | None = None) -> Batched[Any]:
    """A game of pgx for one player as an `Environment` of this package.

    Args:
        name: for `pgx.make`, such as `"2048"` or `"minatar-breakout"`; or a `pgx.Env`.
        max_steps: a limit of steps; `None` for none. Some games of MinAtar never end without one.

    Raises:
        ConfigError: pgx is not installed.
        ValueError: there is no such game, or it has more than one player.
    """
    pgx = require("pgx", extra="pgx", caller="from_pgx")
    game: Any = name
    if isinstance(name, str):
        known = list(pgx.available_envs())
        if name not in known:
            raise ValueError(no_such("pgx has no game", name, known))
        with making("pgx"), as_they_expect():
            game = pgx.make(name)
    if game.num_players != 1:
        raise ValueError(
            f"{game.id} is a game of {game.num_players} players; from_pgx needs one for one "
            "player, such as 2048"
        )
    return Batched(PgxGame(game), max_steps=max_steps)
