"""The picture or text of a game, from its environment."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from hackmatrix_rl.env._environment import Environment, env_keys, start_games
from hackmatrix_rl.env._single_game import Batched, SingleGame
from hackmatrix_rl.system.errors import ConfigError, described, is_ours, place

MOST_PIXELS = 4096
"""The largest height and width of a picture."""


def picture_of(environment: Environment, state: PyTree[Array]) -> str | np.ndarray | None:
    """The picture of the first game of a batch, else its text, else `None`.

    A picture is uint8 `[height, width, 3]`. `state` is the state that `reset` or `step` returned.
    """
    drawn = environment.draw(state, 0)
    if drawn is not None:
        return _pixels(drawn, _method(environment, "draw"))
    text: Any = environment.render(state, 0)
    if text is None or isinstance(text, str):
        return text
    wants = "one string"
    if isinstance(text, list | tuple) and all(isinstance(line, str) for line in text):
        wants += ', with the lines joined: return "\\n".join(lines)'
    elif isinstance(text, jax.Array | np.ndarray):
        wants += ". An array of pixels is returned by a method draw(self, state)"
    raise ConfigError(
        f"{_method(environment, 'render')} returns {described(text)}; expected {wants}"
    )


def check_pictures(environment: Environment) -> None:
    """Draws the start of one game, if its `draw` or `render` is from outside this package."""
    owner = _owner(environment)
    base = SingleGame if isinstance(owner, SingleGame) else Environment
    own = any(getattr(type(owner), name) is not getattr(base, name) for name in ("draw", "render"))
    if own and not is_ours(owner):
        state, _ = start_games(environment, env_keys(jax.random.key(0), 1))
        picture_of(environment, state)


def _owner(environment: Environment) -> Any:
    """The object whose methods draw: the game of a batch, or the environment."""
    return environment.game if isinstance(environment, Batched) else environment


def _method(environment: Environment, name: str) -> str:
    return place(_owner(environment), name)


def _pixels(drawn: Any, said: str) -> np.ndarray:
    example = "np.uint8 of [height, width, 3]"
    if not isinstance(drawn, jax.Array | np.ndarray):
        raise ConfigError(f"{said} returns {described(drawn)}; expected an array, {example}")
    pixels = np.asarray(drawn)
    if pixels.dtype != np.uint8:
        raise ConfigError(
            f"{said} returns {described(drawn)}; expected {example}: numbers from 0 to 255"
        )
    sides = pixels.shape[:2]
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not all(0 < n <= MOST_PIXELS for n in sides):
        raise ConfigError(
            f"{said} returns {described(drawn)}; expected {example}, with sides of 1 to "
            f"{MOST_PIXELS} pixels"
        )
    return pixels
