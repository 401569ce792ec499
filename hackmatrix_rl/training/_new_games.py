"""New games for a resumed training whose environment steps in Python: no file holds its games."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.system.errors import is_key
from hackmatrix_rl.training._algorithm import AlgorithmState

_NEW_GAMES = 2**32 - 2
"""Folded into a training's key for new games; no update and no step has this number."""


def new_games_note(state: AlgorithmState, reinit_fields: tuple[str, ...]) -> str:
    """A line that says which parts of a training are reinitialized."""
    rest = [empty_parts(state, name, reinit_fields) for name in _whole(reinit_fields)]
    also = f", and {' and '.join(filter(None, rest))} begins empty" if any(rest) else ""
    return f"Python played the games, and no checkpoint holds them: new games start{also}"


def empty_parts(state: AlgorithmState, whole: str, reinit_fields: tuple[str, ...]) -> str:
    """The parts of a field that begin empty: those that `reinit_fields` does not name.

    With `("collector_state", "collector_state.games")` it is `the buffer`; without named parts it
    is empty.
    """
    parts = [each for each in reinit_fields if each.startswith(f"{whole}.")]
    fields = vars(getattr(state, whole)) if parts else ()
    return " and ".join(f"the {each}" for each in fields if f"{whole}.{each}" not in parts)


def new_games_key(state: AlgorithmState, reinit_fields: tuple[str, ...]) -> Key[Array, ""]:
    """The key of new games, from a key of the stored training and its number of updates."""
    kept = {name: part for name, part in vars(state).items() if name not in reinit_fields}
    keys = [leaf for leaf in jax.tree.leaves(eqx.filter(kept, eqx.is_array)) if is_key(leaf)]
    key = next((each for each in keys if each.ndim == 0), jax.random.key(0))
    return jax.random.fold_in(jax.random.fold_in(key, _NEW_GAMES), state.update)


def with_new_games(state: Any, begun: Any, reinit_fields: tuple[str, ...]) -> Any:
    """The stored state with the `reinit_fields` of the new state `begun`."""
    names = _whole(reinit_fields)
    return eqx.tree_at(
        lambda tree: [getattr(tree, name) for name in names],
        state,
        [getattr(begun, name) for name in names],
    )


def _whole(reinit_fields: tuple[str, ...]) -> list[str]:
    return [name for name in reinit_fields if "." not in name]
