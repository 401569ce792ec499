"""A pgx game as an environment, for a comparison of speed."""

from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key, PyTree

from hackmatrix_rl.env import (
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Timestep,
)
from hackmatrix_rl.errors import (
    ConfigError,
)


def require_pgx() -> None:
    """Checks that pgx is installed.

    Raises:
        ConfigError: the package is missing.
    """
    if find_spec("pgx") is None:
        raise ConfigError(
            "--compare pgx needs the package pgx, which is not installed. Install the compare "
            "extra: pip install '.[compare]'"
        )


def pgx_environment(name: str) -> "PgxEnvironment":
    """A pgx game for one player.

    Args:
        name: name of the game for `pgx.make`.

    Raises:
        ConfigError: pgx is not installed.
        ValueError: the game has more than one player.
    """
    require_pgx()
    import pgx

    game = pgx.make(name)
    if game.num_players != 1:
        raise ValueError(f"{name} is a game of {game.num_players}; use one for one player")
    return PgxEnvironment(game)


class PgxState(eqx.Module):
    """The state of a batch of games.

    Attributes:
        games: pgx's own state.
        total_reward: reward of the episode so far.
        length: steps of the episode so far.
    """

    games: PyTree[Array]
    total_reward: Float32[Array, " num_envs"]
    length: Int32[Array, " num_envs"]


class PgxEnvironment(Environment):
    """A pgx game, batched, reset by pgx's own `auto_reset`.

    Attributes:
        game: a `pgx.Env` for one player.

    Source: Koyamada et al. 2023, "Pgx: hardware-accelerated parallel game simulators for
    reinforcement learning".
    """

    game: Any = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        """Shapes of observations and actions."""
        state = jax.eval_shape(self.game.init, jax.random.key(0))
        return EnvSpec(state.legal_action_mask.size, state.observation)

    @property
    def truncates(self) -> bool:
        """Never: `auto_reset` has no last observation to bootstrap from."""
        return False

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PgxState, Timestep]:
        """Starts one game for each key."""
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            games = jax.vmap(self.game.init)(keys)
        zero = jnp.zeros(keys.shape, jnp.float32)
        state = PgxState(games, zero, zero.astype(jnp.int32))
        return state, _timestep(games, zero, state.length)

    def step(
        self,
        state: PgxState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PgxState, Timestep]:
        """Plays one action in each game, and resets the games that ended."""
        from pgx.experimental import auto_reset

        # pgx needs JAX's default promotion.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            games = jax.vmap(auto_reset(self.game.step, self.game.init))(state.games, actions, keys)
        total_reward, length = state.total_reward + games.rewards[:, 0], state.length + 1
        timestep = _timestep(games, total_reward, length)
        done = timestep.done
        after = PgxState(games, jnp.where(done, 0.0, total_reward), jnp.where(done, 0, length))
        return after, timestep


def _timestep(
    games: Any, total_reward: Float32[Array, " num_envs"], length: Int32[Array, " num_envs"]
) -> Timestep:
    return Timestep(
        observation=games.observation,
        mask=games.legal_action_mask,
        reward=games.rewards[:, 0],
        terminated=games.terminated | games.truncated,
        truncated=jnp.zeros_like(games.truncated),
        last_observation=games.observation,
        last_mask=games.legal_action_mask,
        terms={},
        episode=EpisodeStatistics(total_reward, length),
    )
