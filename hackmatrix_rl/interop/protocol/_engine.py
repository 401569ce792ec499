"""Games of this package's engine for the line protocol."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt32

from hackmatrix_rl.env import CompactObservation, compact_observation, start_key, step_keys
from hackmatrix_rl.games.hackmatrix import (
    GameConfig,
    State,
    from_arrays,
    legal_actions,
    new_game,
    play,
)
from hackmatrix_rl.interop.protocol._given_state import Arrays
from hackmatrix_rl.system import ticking

CLOCK = ("scheduled_task_interval", "next_scheduled_task_turn", "pending_siphon_transmissions")
"""The fields of a position that `getInternalState` reports besides the turn and the enemies."""

PATIENCE = 2.0
"""Seconds of compilation before a message."""


class View(eqx.Module):
    """A position as the screen shows it, and the hidden parts that answers need."""

    seen: CompactObservation
    mask: Bool[Array, " num_actions"]  #: The legal actions.
    enemies: UInt32[Array, " max_enemies"]  #: The words of `Enemies`.
    transmissions: UInt32[Array, " max_transmissions"]  #: The words of `Transmissions`.
    clock: Int32[Array, "3"]  #: The numbers of `CLOCK`.


class Result(eqx.Module):
    """The result of an action; see `Outcome`."""

    terms: Float32[Array, " terms"]  #: The reward terms, in the order of `TERM_NAMES`.
    reward: Float32[Array, ""]  #: Their sum.
    legal: Bool[Array, ""]
    died: Bool[Array, ""]
    won: Bool[Array, ""]
    completed: Bool[Array, ""]

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(not self.legal or self.died or self.won)


class Engine:
    """Plays games sequentially, one action at a time.

    Game N, counted from 0, is game N of `eval --seed SEED`: the same actions give the same game.

    Args:
        seed: the seed of all games, below 2**32.
        config: sizes and league of the games; by default `GameConfig()`.

    Attributes:
        state: the state of the current game; `None` before the first.
    """

    def __init__(self, seed: int, config: GameConfig | None = None) -> None:
        self.config = GameConfig() if config is None else config
        self.state: State | None = None
        self._seed = np.uint32(seed)
        self._view: View | None = None
        self._game = -1
        self._steps = 0
        self._ready: Future[None] | None = None

    def begin(self) -> View:
        """Starts the next game."""
        self.state, view = _begin(self.config, self._seed, np.uint32(self._game + 1))
        return self._begun(view)

    def put(self, arrays: Arrays) -> View:
        """Starts the next game from a position.

        Raises:
            ValueError: it is not a valid position; see `from_arrays`.
        """
        self.state = from_arrays(self.config, arrays)
        return self._begun(_look(self.config, self.state))

    def look(self) -> View:
        """The current position; starts the first game if none has started."""
        return self.begin() if self._view is None else self._view

    def play(self, action: int) -> tuple[View, Result]:
        """Plays one action. A number that is no action ends the episode like an illegal action."""
        if self.state is None:
            self.begin()
        if self._ready is not None:
            self._ready.result()
        assert self.state is not None  # `begin` made it
        self.state, view, result = self._step(self.state, action)
        self._steps += 1
        self._view, found = jax.device_get((view, result))
        return self._view, found

    def warm_up(self, say: Callable[[str], None]) -> None:
        """Compiles the step in a thread; `play` waits for it.

        `say` reports a compilation that takes long, as it does without a cached program.
        """
        if self._ready is None and self.state is not None:
            pool = ThreadPoolExecutor(1)
            self._ready = pool.submit(self._rehearse, self.state, say)
            pool.shutdown(wait=False)

    def _rehearse(self, state: State, say: Callable[[str], None]) -> None:
        began, waited = time.monotonic(), list[float]()

        def tick(seconds: float) -> None:
            if seconds >= PATIENCE and not waited:
                waited.append(seconds)
                say("compiling the game's step; later starts find it in the cache ...")

        with ticking(tick):
            jax.block_until_ready(self._step(state, 0))
        if waited:
            say(f"compiled in {time.monotonic() - began:.1f} s")

    def _step(self, state: State, action: int) -> tuple[State, View, Result]:
        place = np.uint32(self._game), np.int32(self._steps)
        return _play(self.config, state, np.int32(action), self._seed, *place)

    def _begun(self, view: View) -> View:
        """Counts a new game, whose first position is `view`."""
        self._game += 1
        self._steps = 0
        found: View = jax.device_get(view)
        self._view = found
        return found


@partial(jax.jit, static_argnums=0)
def _begin(
    config: GameConfig, seed: UInt32[Array, ""], game: UInt32[Array, ""]
) -> tuple[State, View]:
    state = new_game(config, key=start_key(_key(seed, game)))
    return state, _view_of(config, state)


@partial(jax.jit, static_argnums=0)
def _look(config: GameConfig, state: State) -> View:
    return _view_of(config, state)


@partial(jax.jit, static_argnums=0)
def _play(
    config: GameConfig,
    state: State,
    action: Int32[Array, ""],
    seed: UInt32[Array, ""],
    game: UInt32[Array, ""],
    steps: Int32[Array, ""],
) -> tuple[State, View, Result]:
    after, outcome = play(config, state, action, key=step_keys(_key(seed, game), steps)[1])
    result = Result(
        terms=outcome.terms.as_array(),
        reward=outcome.terms.total(),
        legal=outcome.legal,
        died=outcome.died,
        won=outcome.won,
        completed=outcome.completed,
    )
    return after, _view_of(config, after), result


def _key(seed: UInt32[Array, ""], game: UInt32[Array, ""]) -> Key[Array, ""]:
    """The key of a game of an evaluation, as `env_keys` makes it from `jax.random.key(seed)`."""
    words = jnp.stack([jnp.zeros_like(seed), seed])
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), game)


def _view_of(config: GameConfig, state: State) -> View:
    position = state.position
    return View(
        seen=compact_observation(position, is_rare=True),
        mask=legal_actions(config, state),
        enemies=position.enemies.words,
        transmissions=position.transmissions.words,
        clock=jnp.stack([getattr(position, name) for name in CLOCK]),
    )
