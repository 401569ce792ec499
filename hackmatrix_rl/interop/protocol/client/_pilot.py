"""Plays an app's game with a player of this package."""

import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import HackMatrix, classic_from_compact, step_keys
from hackmatrix_rl.evaluation import Agent, read_by
from hackmatrix_rl.interop.protocol.client._app import App
from hackmatrix_rl.interop.protocol.client._seen_game import SeenGame

_classic = jax.jit(classic_from_compact)


def play_app(
    app: App,
    player: Agent,
    environment: HackMatrix,
    game: SeenGame,
    *,
    key: Key[Array, ""],
    pause: float = 0.0,
    on_move: Callable[[int], None] = lambda moves: None,
) -> None:
    """Plays one game to its end.

    The player reads the observation of `environment` and samples as in `evaluate`. On this
    package's server with the same seed, a player that does not read states plays the same game as
    there.

    Args:
        app: runs the game.
        player: chooses the actions.
        environment: makes the observation that the player reads.
        game: records the game.
        key: key of the player's choices, one of `env_keys`.
        pause: seconds before each move.
        on_move: called with the number of moves.

    Raises:
        ConfigError: the app failed, or its answers are not a valid game; the message is one line.
    """
    game.begin(app.reset())
    carry = player.initial_carry()
    while game.end is None:
        game.allow(app.valid_actions())
        time.sleep(pause)
        now = game.moments[-1]
        observation = read_by(player, observed(game, environment), lambda: game.state)
        act_key, _ = step_keys(key, now.number)
        action, carry = _act(player, observation, jnp.asarray(now.mask), carry, act_key)
        game.follow(int(action), app.step(int(action)))
        on_move(now.number + 1)


def observed(game: SeenGame, environment: HackMatrix) -> PyTree[Array]:
    """The environment's observation of the current position."""
    tracker = game.tracker
    if environment.observation == "tactical":
        return tracker.observation()
    return tracker.seen if environment.observation == "compact" else _classic(tracker.seen)


@eqx.filter_jit
def _act(
    player: Agent,
    observation: PyTree[Array],
    mask: Bool[Array, " num_actions"],
    carry: PyTree[Array],
    key: Key[Array, ""],
) -> tuple[Int32[Array, ""], PyTree[Array]]:
    return player.act(observation, mask, carry, key=key)
