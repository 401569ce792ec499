"""Environments of gymnax and pgx in this package, and games of this package in gymnax."""

from contextlib import suppress
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree, Shaped

from hackmatrix_rl.env import (
    ActionSpace,
    Batched,
    Box,
    Discrete,
    HackMatrixGame,
    Played,
    SingleGame,
)
from hackmatrix_rl.interop.adapters._extras import jax_defaults, making, no_such
from hackmatrix_rl.interop.adapters._foreign_pictures import figure_pixels, svg_pixels
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import instance, refusing


class GymnaxState(eqx.Module):
    """The state of one gymnax environment, and the observation of its latest step."""

    game: PyTree[Array]
    observation: PyTree[Array]


@final
class GymnaxGame(SingleGame[GymnaxState]):
    """An environment of gymnax 1.0 or newer, with discrete actions or a vector of real numbers.

    The step limit truncates an episode; it does not terminate it.

    Source: Lange 2022, "gymnax: a JAX-based reinforcement learning environment library".
    """

    environment: Any = eqx.field(static=True)
    params: PyTree[Array]
    space: ActionSpace = eqx.field(static=True)

    @property
    def actions(self) -> ActionSpace:
        """The space of actions of the gymnax environment."""
        return self.space

    @property
    def truncates(self) -> bool:
        """Always true: every gymnax environment has a step limit."""
        return True

    def start(self, *, key: Key[Array, ""]) -> GymnaxState:
        """A new game."""
        with jax_defaults():
            seen, game = self.environment.reset_env(key, self.params)
        return GymnaxState(_strong(game), _strong(seen))

    def observe(self, state: GymnaxState) -> PyTree[Array]:
        """The observation of gymnax."""
        return state.observation

    def play(
        self, state: GymnaxState, action: Shaped[Array, "*action"], *, key: Key[Array, ""]
    ) -> Played:
        """One step without gymnax's autoreset."""
        with jax_defaults():
            seen, game, reward, terminated, _ = self.environment.step_env(
                key, state.game, action, self.params
            )
            truncated = self.environment.is_truncated(game, self.params)
        # `lax.scan` needs the dtypes that `start` returned.
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
        """The figure of the environment's `render`; `None` for the many that have none."""
        render = getattr(self.environment, "render", None)
        if render is None:
            return None
        with jax_defaults():
            return figure_pixels(lambda: render(state.game, self.params))


def _space(space: Any) -> ActionSpace:
    """A space of gymnax in this package."""
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if not hasattr(space, "low"):
        raise ValueError(
            f"{type(space).__name__} is not supported; this package needs Discrete, as in "
            "CartPole-v1, or a Box, as in Pendulum-v1"
        )
    low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
    return Box(tuple(low.tolist()), tuple(high.tolist()))


def _strong(tree: PyTree) -> PyTree[Array]:
    """Converts Python numbers and weakly typed arrays to strongly typed arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)


def from_gymnax(
    name: str | Any, params: Any = None, *, max_steps: int | None = None, **settings: Any
) -> Batched[GymnaxState]:
    """A gymnax environment as an `Environment` of this package.

    Args:
        name: an id for `gymnax.make`, such as `"CartPole-v1"`; or a gymnax environment.
        params: its parameters; `None` for the default ones.
        max_steps: a step limit; `None` for gymnax's.
        settings: passed to `gymnax.make`.

    Raises:
        ConfigError: gymnax is not installed.
        ValueError: there is no such environment, its actions are of another space, or gymnax is
            older than 1.0.
    """
    gymnax = require("gymnax", extra="gymnax", caller="from_gymnax")
    environment: Any = name
    default: Any = None
    if isinstance(name, str):
        known = list(gymnax.registered_envs)
        if name not in known:
            raise ValueError(no_such("gymnax has no environment", name, known))
        with making("gymnax"), jax_defaults():
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
    if params is None:
        params = environment.default_params if default is None else default
    with refusing(f"the actions of {environment.name}: ", of=(TypeError, ValueError)):
        space = _space(environment.action_space(params))
    return Batched(GymnaxGame(environment, _strong(params), space), max_steps=max_steps)


def to_gymnax(game: SingleGame[Any] | None = None) -> tuple[Any, Any]:
    """A game with the API of gymnax 1.0, and its default parameters.

    Observations are vectors of features; `info["action_mask"]` and the environment's
    `action_mask(state)` hold the legal actions.

    Args:
        game: the game; by default HackMatrix with the classic observation.

    Returns:
        An environment and its parameters, like `gymnax.make`.

    Raises:
        ConfigError: gymnax is not installed.
        TypeError: `game` is not a `SingleGame`.
    """
    require("gymnax", extra="gymnax", caller="to_gymnax")
    from hackmatrix_rl.interop.adapters._gymnax_face import GymnaxFace

    game = HackMatrixGame() if game is None else game
    instance("game", game, SingleGame, "HackMatrixGame()")
    face = GymnaxFace(game)
    return face, face.default_params


@final
class PgxGame(SingleGame[Any]):
    """A single-player game of pgx; its state is a `pgx.State`. An illegal action ends the game.

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
        """Always true: pgx does not declare whether a game truncates."""
        return True

    def start(self, *, key: Key[Array, ""]) -> Any:
        """A new game."""
        with jax_defaults():
            return self.game.init(key)

    def observe(self, state: Any) -> PyTree[Array]:
        """The observation of pgx."""
        return state.observation

    def legal(self, state: Any) -> Bool[Array, " num_actions"]:
        """The mask of the legal actions; all are legal at the end of a game."""
        legal: Array = state.legal_action_mask
        return legal

    def play(self, state: Any, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """One step of pgx."""
        with jax_defaults():
            after = self.game.step(state, action, key)
        return Played(after, jnp.ravel(after.rewards)[0], after.terminated, after.truncated)

    @property
    def title(self) -> str:
        """The name of the pgx game."""
        return str(self.game.id)

    def draw(self, state: Any) -> np.ndarray | None:
        """The game's SVG as pixels; `None` if pgx cannot draw the game."""
        # pgx raises these for games that it cannot draw.
        with jax_defaults(), suppress(AssertionError, NotImplementedError):
            return svg_pixels(state.to_svg())
        return None


def from_pgx(name: str | Any, *, max_steps: int | None = None) -> Batched[Any]:
    """A single-player game of pgx as an `Environment` of this package.

    Args:
        name: an id for `pgx.make`, such as `"2048"` or `"minatar-breakout"`; or a `pgx.Env`.
        max_steps: a step limit; `None` for none. Some MinAtar games never end without one.

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
        with making("pgx"), jax_defaults():
            game = pgx.make(name)
    if game.num_players != 1:
        raise ValueError(
            f"{game.id} is a game of {game.num_players} players; from_pgx needs a single-player "
            "game, such as 2048"
        )
    return Batched(PgxGame(game), max_steps=max_steps)
