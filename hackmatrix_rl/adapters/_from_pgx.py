"""Games of pgx in this package."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.adapters._extras import as_they_expect, require
from hackmatrix_rl.env import Batched, Played, SingleGame


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


def from_pgx(name: str | Any, *, max_steps: int | None = None) -> Batched[Any]:
    """A game of pgx for one player as an `Environment` of this package.

    Args:
        name: for `pgx.make`, such as `"2048"` or `"minatar-breakout"`; or a `pgx.Env`.
        max_steps: a limit of steps; `None` for none. Some games of MinAtar never end without one.

    Raises:
        ConfigError: pgx is not installed.
        ValueError: there is no such game, or it has more than one player.
    """
    pgx = require("pgx", extra="compare", caller="from_pgx")
    game: Any = name
    if isinstance(name, str):
        known = list(pgx.available_envs())
        if name not in known:
            raise ValueError(f"pgx has no game {name!r}; it has {', '.join(known)}")
        game = pgx.make(name)
    if game.num_players != 1:
        raise ValueError(
            f"{game.id} is a game of {game.num_players} players; from_pgx needs one for one "
            "player, such as 2048"
        )
    return Batched(PgxGame(game), max_steps=max_steps)
