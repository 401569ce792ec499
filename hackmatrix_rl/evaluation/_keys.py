"""The random keys of one game: the same in an evaluation, a replay, and a game by hand."""

import jax
from jaxtyping import Array, Int, Key


def start_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """The key of the first position of a game."""
    return jax.random.fold_in(key, 0)


def step_keys(
    key: Key[Array, ""], step: Int[Array, ""] | int
) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of one step of a game.

    Args:
        key: of the game.
        step: number of steps before it.

    Returns:
        The key of the player's choice, and the key of the environment.
    """
    act, play = jax.random.split(jax.random.fold_in(key, step + 1))
    return act, play
