"""Environments of gymnax, pgx, Brax and MuJoCo Playground here, and ours in gymnax."""

from contextlib import suppress
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree, Shaped

from hackmatrix_rl.env import ActionSpace, Batched, Box, HackMatrixGame, Played, SingleGame
from hackmatrix_rl.interop.adapters._extras import action_space, check_known, jax_defaults, making
from hackmatrix_rl.interop.adapters._foreign_pictures import figure_pixels, svg_pixels
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import instance


class GymnaxState(eqx.Module):
    """The state of one gymnax environment, and the observation of its latest step."""

    game: PyTree[Array]
    observation: PyTree[Array]


@final
class GymnaxGame(SingleGame[GymnaxState]):
    """An environment of gymnax 1.0 or newer.

    The step limit truncates an episode; it does not terminate it.

    Source: Lange 2022, "gymnax: a JAX-based reinforcement learning environment library".
    """

    environment: Any = eqx.field(static=True)
    params: PyTree[Array]
    space: ActionSpace = eqx.field(static=True)

    @property
    def actions(self) -> ActionSpace:
        """The actions of the gymnax environment; several axes become one."""
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
            theirs = self.environment.action_space(self.params)
            action = action.reshape(theirs.shape).astype(theirs.dtype)
            seen, game, reward, terminated, _ = self.environment.step_env(
                key, state.game, action, self.params
            )
            truncated = self.environment.is_truncated(game, self.params)
        return Played(
            state=_with_dtypes(state, GymnaxState(game, seen)),
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


def _strong(tree: PyTree) -> PyTree[Array]:
    """Converts Python numbers and weakly typed arrays to strongly typed arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)


def _with_dtypes(state: PyTree[Array], after: PyTree[Array]) -> PyTree[Array]:
    """`after` with the dtypes of `state`, which `lax.scan` needs."""
    return jax.tree.map(lambda old, new: jnp.asarray(new).astype(old.dtype), state, after)


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
        ValueError: there is no such environment, its space of actions is not supported, or gymnax
            is older than 1.0.
    """
    gymnax = require("gymnax", extra="gymnax", caller="from_gymnax")
    environment: Any = name
    default: Any = None
    if isinstance(name, str):
        check_known("gymnax has no environment", name, gymnax.registered_envs)
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
    space = action_space(environment.action_space(params))
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
        check_known("pgx has no game", name, pgx.available_envs())
        with making("pgx"), jax_defaults():
            game = pgx.make(name)
    if game.num_players != 1:
        raise ValueError(
            f"{game.id} is a game of {game.num_players} players; from_pgx needs a single-player "
            "game, such as 2048"
        )
    return Batched(PgxGame(game), max_steps=max_steps)


@final
class BraxGame(SingleGame[Any]):
    """An environment of Brax or MuJoCo Playground without its wrappers; its state is a `State`.

    Source: Freeman et al. 2021, "Brax: a differentiable physics engine for large scale rigid body
    simulation"; Zakka et al. 2025, "MuJoCo Playground".
    """

    environment: Any = eqx.field(static=True)
    name: str = eqx.field(static=True)

    @property
    def actions(self) -> ActionSpace:
        """Numbers between -1 and 1, which the environment scales to its actuators."""
        size = self.environment.action_size
        return Box((-1.0,) * size, (1.0,) * size)

    def start(self, *, key: Key[Array, ""]) -> Any:
        """A new episode."""
        with jax_defaults():
            # Some environments store the key in their state, as an array of integers.
            return _strong(self.environment.reset(jax.random.key_data(key)))

    def observe(self, state: Any) -> PyTree[Array]:
        """The observation of the environment."""
        return state.obs

    def play(self, state: Any, action: Shaped[Array, " k"], *, key: Key[Array, ""]) -> Played:
        """One step; the environment draws from its state, not from the key."""
        with jax_defaults():
            given = jax.tree.map(jnp.asarray, state)  # some change the metrics in it in place
            after = _with_dtypes(state, self.environment.step(given, action))
        return Played(after, after.reward, after.done.astype(bool))

    @property
    def title(self) -> str:
        """The name of the environment."""
        return self.name


def from_brax(name: str | Any, *, max_steps: int | None = 1000, **settings: Any) -> Batched[Any]:
    """A Brax environment as an `Environment` of this package.

    Args:
        name: an environment by name, such as `"ant"`; or a `brax.envs.Env` without wrappers.
        max_steps: a step limit, which truncates; `None` for none.
        settings: passed to the environment, such as `backend="spring"`.

    Raises:
        ConfigError: brax is not installed.
        ValueError: there is no such environment, or it does not take these settings.
    """
    brax = require("brax.envs", extra="brax", caller="from_brax")
    if not isinstance(name, str):
        return Batched(BraxGame(name, type(name).__name__), max_steps=max_steps)
    check_known("brax has no environment", name, brax._envs)
    with making("brax"), jax_defaults():
        environment = brax.get_environment(name, **settings)
    return Batched(BraxGame(environment, name), max_steps=max_steps)


def from_mjx(name: str, *, max_steps: int | None = None, **settings: Any) -> Batched[Any]:
    """An environment of MuJoCo Playground, which runs on MJX, as an `Environment` of this package.

    Args:
        name: a name in its registry, such as `"CartpoleBalance"`.
        max_steps: a step limit, which truncates; `None` for its `episode_length`.
        settings: override its config, such as `impl="jax"`.

    Raises:
        ConfigError: MuJoCo Playground is not installed.
        ValueError: there is no such environment, or its config has no such setting.
    """
    registry = require("mujoco_playground", extra="mjx", caller="from_mjx").registry
    check_known("mujoco_playground has no environment", name, registry.ALL_ENVS)
    with making("mujoco_playground"), jax_defaults():
        config = registry.get_default_config(name)
        environment = registry.load(name, config_overrides=settings)
    limit = config.episode_length if max_steps is None else max_steps
    return Batched(BraxGame(environment, name), max_steps=limit)
