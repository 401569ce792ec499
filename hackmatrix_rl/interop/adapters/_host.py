"""Batches of games that Python plays through the API of gymnasium's vector environments."""

import itertools
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree

from hackmatrix_rl import env
from hackmatrix_rl.interop.adapters._extras import action_space
from hackmatrix_rl.interop.adapters._workers import without_main


@dataclass
class Batch:
    """An open batch of games: the vector environment, its step, and the number of its holders."""

    games: Any
    steps: int = 0
    holders: int = 0
    # The garbage collector may close a batch at any time, in any thread.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def close(self) -> None:
        """Closes the games once a step in progress has finished."""
        with self.lock:
            self.games.close()


class Host:
    """The open batches of games by number. `make` returns a vector environment of a given size.

    Attributes:
        resets: whether a game resets itself in the step that ends its episode.
        title: the id of the environment in gymnasium's registry; "gymnasium" if it has none.
        render_modes: the render modes of the environment.
        drawn: returns a host of the same games with a render mode; `None` if they have none.
        masked: whether `info["action_mask"]` holds the legal actions.
        shape: shapes and JAX dtypes of the observation's leaves.
        actions: the space of actions; several axes of gymnasium's become one.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        *,
        check: Callable[[Any], None] = lambda games: None,
        foreign: Callable[[], AbstractContextManager[None]] = nullcontext,
        resets: bool = True,
    ) -> None:
        """Makes a batch of one game to read its spaces, in the error context `foreign`."""
        self._make = make
        self.resets = resets
        self.drawn: Callable[[Callable[[str], None]], Host | None] = lambda report: None
        with foreign():
            one = self.make(1)
        try:
            check(one)
            self._theirs = one.single_action_space
            try:
                self.actions = action_space(self._theirs)
            except ValueError as error:
                raise ValueError(
                    f"{error}. from_gymnasium(..., wrappers=[...]) in Python, or in your own --env "
                    "module:factory, can change them: gymnasium.wrappers.TransformAction"
                ) from error
            with foreign():
                _, info = one.reset(seed=[0])
            space = one.single_observation_space
            self.masked = np.shape(info.get("action_mask")) == (1, self.actions.mask_size)
            self.shape = _leaves(space)
            spec = getattr(one, "spec", None)
            self.title = "gymnasium" if spec is None else str(spec.id)
            self.render_modes = tuple(getattr(one, "metadata", {}).get("render_modes") or ())
        finally:
            one.close()
        self._numbers = itertools.count()
        self._batches: dict[int, Batch] = {}
        # Batches that are still open are closed with this object, or when the process exits.
        weakref.finalize(self, _close_all, self._batches)

    def make(self, count: int) -> Any:
        """Makes a vector environment of `count` games."""
        with without_main():
            return self._make(count)

    def reset(self, seeds: Any) -> tuple[np.ndarray, PyTree, np.ndarray]:
        """Opens a batch; returns its number, repeated for each game, observations and masks."""
        seeds = np.asarray(seeds)
        number, batch = next(self._numbers), Batch(self.make(len(seeds)))
        self._batches[number] = batch
        try:
            seen, info = batch.games.reset(seed=[int(seed) for seed in seeds])
        except BaseException:
            self.close(number)
            raise
        return np.full(len(seeds), number, np.int32), self._cast(seen), self._mask(info, len(seeds))

    def draw(self, number: int, step: int, game: int) -> Any:
        """A game's frame; `None` if its batch is not at this step, or cannot draw."""
        batch = self._batches.get(number)
        mode = None if batch is None else getattr(batch.games, "render_mode", None)
        if batch is None or batch.steps != step or mode not in ("rgb_array", "ansi"):
            return None
        with batch.lock:
            frames = batch.games.render()
        return None if frames is None else frames[game]

    def hold(self, number: int) -> None:
        """Adds a holder to a batch."""
        if (batch := self._batches.get(number)) is not None:
            with batch.lock:
                batch.holders += 1

    def release(self, number: int) -> None:
        """Removes a holder from a batch; the last one closes it."""
        if (batch := self._batches.get(number)) is not None:
            with batch.lock:
                batch.holders -= 1
                last = batch.holders == 0
            if last:
                self.close(number)

    def close(self, number: int) -> None:
        """Closes a batch, if it is open."""
        if (batch := self._batches.pop(number, None)) is not None:
            batch.close()

    def step(self, number: Any, step: Any, actions: Any) -> tuple[Any, ...]:
        """Steps a batch.

        Returns:
            Observations after and before a reset, their masks, rewards, `terminated`, `truncated`.
        """
        number, step = int(np.asarray(number)[0]), int(np.asarray(step)[0])
        if (batch := self._batches.get(number)) is None:
            raise RuntimeError(
                f"batch {number} of gymnasium's games is closed: games end with the training, the "
                "evaluation or the process that started them"
            )
        with batch.lock:
            if batch.steps != step:
                raise RuntimeError(
                    f"the games of gymnasium are at step {batch.steps}, and the state is at step "
                    f"{step}: they cannot go back, so use each state once"
                )
            batch.steps += 1
            return self._step(batch.games, np.asarray(actions))

    def _step(self, games: Any, actions: np.ndarray) -> tuple[Any, ...]:
        seen, reward, terminated, truncated, info = games.step(self._as_theirs(actions))
        now = self._cast(seen)
        last = jax.tree.map(np.copy, now)
        mask = self._mask(info, len(actions))
        last_mask = mask.copy()
        # There is no "final_obs" without autoreset: such games are only drawn, for one episode.
        for game in np.flatnonzero(terminated | truncated) if "final_obs" in info else ():
            final = self._cast(info["final_obs"][game])
            jax.tree.map(lambda old, new, game=game: old.__setitem__(game, new), last, final)
            if self.masked:
                last_mask[game] = info["final_info"]["action_mask"][game]
        terminated = np.asarray(terminated, bool)
        truncated = np.asarray(truncated, bool) & ~terminated
        return now, last, mask, last_mask, np.asarray(reward, np.float32), terminated, truncated

    def _as_theirs(self, actions: np.ndarray) -> np.ndarray:
        theirs, shaped = self._theirs, actions.reshape(-1, *self._theirs.shape)
        if isinstance(self.actions, env.Box):
            # A bound of float64 may lie between two numbers of float32.
            return np.clip(shaped.astype(theirs.dtype), theirs.low, theirs.high)
        return shaped + theirs.start

    def _mask(self, info: dict[str, Any], count: int) -> np.ndarray:
        if self.masked:
            return np.array(info["action_mask"], bool)
        return np.ones((count, self.actions.mask_size), bool)

    def _cast(self, seen: Any) -> PyTree:
        return jax.tree.map(lambda part, leaf: np.array(part, leaf.dtype), seen, self.shape)


def _close_all(batches: dict[int, Batch]) -> None:
    while batches:
        batches.popitem()[1].close()


def _leaves(space: Any) -> Any:
    """The shapes and JAX dtypes of an observation space of boxes."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {name: _leaves(part) for name, part in space.items()}
    if isinstance(space, spaces.Box):
        return jax.ShapeDtypeStruct(space.shape, jax.dtypes.canonicalize_dtype(space.dtype))
    raise ValueError(
        f"observations are {space}; from_gymnasium reads Box, and Dict of these. "
        "from_gymnasium(..., wrappers=[gymnasium.wrappers.FlattenObservation]) in Python, or in "
        "your own --env module:factory, makes a Box of most others"
    )


@final
class HostState(env.HeldGames):
    """The number of a batch that Python holds, and its step. Each state is stepped at most once."""

    batch: Int32[Array, " num_envs"]
    step: Int32[Array, " num_envs"]
    total_reward: Float32[Array, " num_envs"]
    length: Int32[Array, " num_envs"]
    host: Host = eqx.field(static=True)

    def hold(self) -> None:
        """Keeps the batch open until the array of its number is garbage-collected."""
        for number in self._numbers():
            self.host.hold(number)
            weakref.finalize(self.batch, self.host.release, number)

    def close(self) -> None:
        for number in self._numbers():
            self.host.close(number)

    def _numbers(self) -> set[int]:
        """The batches of this process: one for each of its devices."""
        parts = (np.asarray(shard.data) for shard in self.batch.addressable_shards)
        return {int(number) for part in parts for number in np.unique(part)}
