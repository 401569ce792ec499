"""Games that Python plays are in no file: a resumed training starts new ones."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.system.errors import is_key
from hackmatrix_rl.training._algorithm import AlgorithmState

_NEW_GAMES = 2**32 - 2
"""The number folded into a training's key for new games. No update and no step has it."""


def new_games_note(state: AlgorithmState, reinit_fields: tuple[str, ...]) -> str:
    """Which parts of a training are reinitialized where Python plays, in one line."""
    rest = [empty_parts(state, name, reinit_fields) for name in _whole(reinit_fields)]
    also = f", and {' and '.join(filter(None, rest))} begins empty" if any(rest) else ""
    return f"Python played the games, and no checkpoint holds them: new games start{also}"


def empty_parts(state: AlgorithmState, whole: str, reinit_fields: tuple[str, ...]) -> str:
    """What begins empty where only named parts of a field are kept: `the buffer`, or nothing."""
    parts = [each for each in reinit_fields if each.startswith(f"{whole}.")]
    fields = vars(getattr(state, whole)) if parts else ()
    return " and ".join(f"the {each}" for each in fields if f"{whole}.{each}" not in parts)


def new_games_key(state: AlgorithmState, reinit_fields: tuple[str, ...]) -> Key[Array, ""]:
    """The key of new games: of the stored training and its update, unlike its other draws."""
    kept = {name: part for name, part in vars(state).items() if name not in reinit_fields}
    keys = [leaf for leaf in jax.tree.leaves(eqx.filter(kept, eqx.is_array)) if is_key(leaf)]
    key = next((each for each in keys if each.ndim == 0), jax.random.key(0))
    return jax.random.fold_in(jax.random.fold_in(key, _NEW_GAMES), state.update)


def with_new_games(state: Any, begun: Any, reinit_fields: tuple[str, ...]) -> Any:
    """A stored state with the games of one that has just begun."""
    names = _whole(reinit_fields)
    return eqx.tree_at(
        lambda tree: [getattr(tree, name) for name in names],
        state,
        [getattr(begun, name) for name in names],
    )


def _whole(reinit_fields: tuple[str, ...]) -> list[str]:
    return [name for name in reinit_fields if "." not in name]
