"""Games of this package in gymnax."""

from typing import Any

from hackmatrix_rl.adapters._extras import require
from hackmatrix_rl.env import HackMatrixGame, SingleGame


def to_gymnax(game: SingleGame[Any] | None = None) -> tuple[Any, Any]:
    """A game for code that is written for gymnax 1.0, and its default parameters.

    Observations are vectors of features; `info["action_mask"]` and the environment's
    `action_mask(state)` tell which actions are legal.

    Args:
        game: the game; by default HackMatrix with the classic observation.

    Returns:
        What `gymnax.make` returns: an environment, and its parameters.

    Raises:
        ConfigError: gymnax is not installed.
        TypeError: `game` is no `SingleGame`.
    """
    require("gymnax", extra="gymnax", caller="to_gymnax")
    from hackmatrix_rl.adapters._gymnax_face import GymnaxFace

    game = HackMatrixGame() if game is None else game
    if not isinstance(game, SingleGame):
        raise TypeError(f"game is {type(game).__name__}; expected an instance of hm.SingleGame")
    face = GymnaxFace(game)
    return face, face.default_params
