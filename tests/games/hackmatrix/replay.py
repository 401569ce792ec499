"""Plays positions by the hundred through functions that are compiled once.

Compiling the game takes far longer than playing it, so every test that plays goes through
one `Replay` (a session fixture) and its one batch size; what is left of the last batch is
filled up with copies.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.hackmatrix.recordings import CONFIG, FLAGS, Arrays, concatenate, rows
from hackmatrix_rl.games.hackmatrix import (
    GameConfig,
    from_arrays,
    legal_actions,
    new_game,
    play,
    to_arrays,
)

BATCH = 2048


@dataclass(frozen=True)
class Played:
    """What a batch of actions led to: positions, flags and the 15 `terms`."""

    position: Arrays
    outcome: Arrays


class Replay:
    """The game's functions, compiled for batches of `BATCH`."""

    def __init__(self, config: GameConfig = CONFIG) -> None:
        self.config = config

        def keys(seed: jax.Array) -> jax.Array:
            return jax.random.split(jax.random.key(seed), BATCH)

        def play_all(states: Any, actions: jax.Array, seed: jax.Array) -> Any:
            def one(state: Any, action: jax.Array, key: jax.Array) -> Any:
                return play(config, state, action, key=key)

            after, outcome = jax.vmap(one)(states, actions, keys(seed))
            flags = {name: getattr(outcome, name) for name in FLAGS}
            return after, flags | {"terms": jax.vmap(lambda terms: terms.as_array())(outcome.terms)}

        self._play = jax.jit(play_all)
        self._mask = jax.jit(jax.vmap(partial(legal_actions, config)))
        self._new = jax.jit(
            lambda seed: jax.vmap(lambda key: new_game(config, key=key))(keys(seed))
        )

    def states(self, positions: Arrays) -> Any:
        """`BATCH` game states; the last of fewer positions is repeated."""
        index = np.minimum(np.arange(BATCH), len(positions["player"]) - 1)
        return from_arrays(self.config, rows(positions, index))

    def step(self, states: Any, actions: np.ndarray, seed: int) -> tuple[Any, Arrays]:
        """One action in each of `BATCH` states: the states after, and the outcome."""
        after, outcome = self._play(states, jnp.asarray(actions, jnp.int32), jnp.uint32(seed))
        return after, {name: np.asarray(value) for name, value in outcome.items()}

    def legal(self, states: Any) -> np.ndarray:
        """The masks of `BATCH` states."""
        return np.array(self._mask(states))

    def new_games(self, count: int, seed: int) -> Arrays:
        """`count` new games."""
        batches = [to_arrays(self._new(jnp.uint32(seed + i))) for i in range(-(-count // BATCH))]
        return rows(concatenate(batches), np.arange(count))

    def new_states(self, seed: int) -> Any:
        """`BATCH` new games as states."""
        return self._new(jnp.uint32(seed))

    def masks(self, positions: Arrays) -> np.ndarray:
        """The legal actions of any number of positions."""
        parts = [self.legal(self.states(rows(positions, part))) for part in _parts(positions)]
        return np.concatenate(parts)[: len(positions["player"])]

    def play(self, positions: Arrays, actions: np.ndarray, seed: int) -> Played:
        """One action in any number of positions, with or without `top_` arrays."""
        positions_after, outcomes = [], []
        for number, part in enumerate(_parts(positions)):
            padded = actions[np.minimum(part[0] + np.arange(BATCH), len(actions) - 1)]
            after, outcome = self.step(
                self.states(rows(positions, part)), padded, seed * 1000 + number
            )
            positions_after.append(rows(to_arrays(after), np.arange(len(part))))
            outcomes.append(rows(outcome, np.arange(len(part))))
        return Played(concatenate(positions_after), concatenate(outcomes))


@cache
def shared_replay() -> Replay:
    """The one `Replay` of the test run."""
    return Replay()


def _parts(positions: Arrays) -> Iterator[np.ndarray]:
    count = len(positions["player"])
    for first in range(0, count, BATCH):
        yield np.arange(first, min(first + BATCH, count))
