"""Games of gymnasium and NeuroGym in this package: they stay in Python, and JAX calls them."""

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jaxtyping import Array, Float32, Int32, Key, PyTree

from hackmatrix_rl import env
from hackmatrix_rl.interop.adapters._extras import making, no_such
from hackmatrix_rl.interop.adapters._workers import (
    FORKS,
    check_not_forks,
    start_method,
    uninterrupted,
    without_main,
)
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import check_actions, first_line, printable


@dataclass
class Batch:
    """A running batch of games: the vector environment, its steps, and how many states hold it."""

    games: Any
    steps: int = 0
    holders: int = 0
    # The collector of garbage may close a batch at any moment, in any thread.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def close(self) -> None:
        """Closes the games, after the step that they may be in."""
        with self.lock:
            self.games.close()


class Host:
    """The running batches of games, by number; `make` makes a vector environment of some size.

    Attributes:
        resets: whether a game resets itself in the step that ends its episode.
        title: the id of the games, or that they are of gymnasium.
        render_modes: how the games can draw themselves.
        drawn: makes the same games so that they draw themselves; `None` where that cannot be done.
        masked: whether `info["action_mask"]` holds the legal actions.
        shape: an observation's leaves, as JAX holds them.
        first_action: the number of the first action.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        *,
        check: Callable[[Any], None] | None = None,
        foreign: Callable[[], AbstractContextManager[None]] = nullcontext,
        resets: bool = True,
    ) -> None:
        """Makes a batch of one, to learn its spaces. `foreign` handles the errors of that."""
        from gymnasium import spaces

        self._make = make
        self.resets = resets
        self.drawn: Callable[[Callable[[str], None]], Host | None] = lambda report: None
        with foreign():
            one = self.make(1)
        try:
            (_check if check is None else check)(one)
            if not isinstance(one.single_action_space, spaces.Discrete):
                raise ValueError(
                    f"actions are {one.single_action_space}; this package needs Discrete ones. "
                    "from_gymnasium(..., wrappers=[...]) in Python, or in your own --env "
                    "module:factory, can make them so: gymnasium.wrappers.TransformAction"
                )
            with foreign():
                _, info = one.reset(seed=[0])
            space = one.single_observation_space
            self.first_action = int(one.single_action_space.start)
            self.num_actions = int(one.single_action_space.n)
            self.masked = np.shape(info.get("action_mask")) == (1, self.num_actions)
            self.shape = _leaves(space)
            spec = getattr(one, "spec", None)
            self.title = "gymnasium" if spec is None else str(spec.id)
            self.render_modes = tuple(getattr(one, "metadata", {}).get("render_modes") or ())
        finally:
            one.close()
        self._numbers = itertools.count()
        self._batches: dict[int, Batch] = {}
        # Whatever nobody has closed, ends with this object or with the process.
        weakref.finalize(self, _close_all, self._batches)

    def make(self, count: int) -> Any:
        """A vector environment of `count` games."""
        with without_main():
            return self._make(count)

    def reset(self, seeds: Any) -> tuple[np.ndarray, PyTree, np.ndarray]:
        """Starts a batch; returns its number for each game, the observations and the masks."""
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
        """What a game draws at the step where its batch is; `None` where it is past it."""
        batch = self._batches.get(number)
        mode = None if batch is None else getattr(batch.games, "render_mode", None)
        if batch is None or batch.steps != step or mode not in ("rgb_array", "ansi"):
            return None
        with batch.lock:
            frames = batch.games.render()
        return None if frames is None else frames[game]

    def hold(self, number: int) -> None:
        """Adds a state that holds a batch."""
        if (batch := self._batches.get(number)) is not None:
            with batch.lock:
                batch.holders += 1

    def release(self, number: int) -> None:
        """Removes a state that holds a batch; the last one closes it."""
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
        """Steps a batch; returns (last) observations and masks, rewards, and ends."""
        number, step = int(np.asarray(number)[0]), int(np.asarray(step)[0])
        if (batch := self._batches.get(number)) is None:
            raise RuntimeError(
                f"the batch {number} of gymnasium's games is closed: games end with the training "
                "or the evaluation that has begun them, and with their process"
            )
        with batch.lock:
            if batch.steps != step:
                raise RuntimeError(
                    f"the games of gymnasium are at step {batch.steps}, and the state is of step "
                    f"{step}: they cannot go back, so use each state once"
                )
            batch.steps += 1
            return self._step(batch.games, np.asarray(actions))

    def _step(self, games: Any, actions: np.ndarray) -> tuple[Any, ...]:
        seen, reward, terminated, truncated, info = games.step(self.first_action + actions)
        now = self._cast(seen)
        last = jax.tree.map(np.copy, now)
        mask = self._mask(info, len(actions))
        last_mask = mask.copy()
        # Games that do not reset themselves are shown, and end with their episode.
        for game in np.flatnonzero(terminated | truncated) if "final_obs" in info else ():
            final = self._cast(info["final_obs"][game])
            jax.tree.map(lambda old, new, game=game: old.__setitem__(game, new), last, final)
            if self.masked:
                last_mask[game] = info["final_info"]["action_mask"][game]
        terminated = np.asarray(terminated, bool)
        truncated = np.asarray(truncated, bool) & ~terminated
        return now, last, mask, last_mask, np.asarray(reward, np.float32), terminated, truncated

    def _mask(self, info: dict[str, Any], count: int) -> np.ndarray:
        if self.masked:
            return np.array(info["action_mask"], bool)
        return np.ones((count, self.num_actions), bool)

    def _cast(self, seen: Any) -> PyTree:
        return jax.tree.map(lambda part, leaf: np.array(part, leaf.dtype), seen, self.shape)


def _close_all(batches: dict[int, Batch]) -> None:
    while batches:
        batches.popitem()[1].close()


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@final
class HostState(env.HeldGames):
    """A batch of games that Python holds: its number, and its step. None is stepped twice."""

    batch: Int32[Array, " num_envs"]
    step: Int32[Array, " num_envs"]
    total_reward: Float32[Array, " num_envs"]
    length: Int32[Array, " num_envs"]
    host: Host = eqx.field(static=True)

    def hold(self) -> None:
        """Keeps the batch open until the array of its number is gone."""
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


def _leaves(space: Any) -> Any:
    """The boxes of a space of observations, as shapes of arrays that JAX holds."""
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


def _check(games: Any) -> None:
    """Raises unless a vector environment is one that the adapter can play."""
    from gymnasium.vector import AutoresetMode, VectorEnv

    if not isinstance(games, VectorEnv):
        raise TypeError(f"make returned {type(games).__name__}; expected a gymnasium VectorEnv")
    if games.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"autoreset_mode is {games.metadata.get('autoreset_mode')}; expected "
            "AutoresetMode.SAME_STEP: vector_kwargs={'autoreset_mode': AutoresetMode.SAME_STEP}"
        )
    check_not_forks(games)


@final
class GymnasiumGames(env.Environment):
    """A vector environment of gymnasium. Python plays it, so it is slower than any game in JAX.

    The games live in this process: they are no part of a checkpoint, a state can be used once, and
    one device plays them all. `reset` begins a new batch with seeds from its keys; the keys of
    `step` are not used, since gymnasium's games draw from their seeds. Evaluations close their
    batches, and a `Trainer` keeps its batches open as long as its state. After you call `reset`
    yourself, call `close()` of the state in the end; otherwise the batch stays open until the
    process ends.

    Source: Towers et al. 2024, "Gymnasium: a standard interface for reinforcement learning
    environments".
    """

    host: Host = eqx.field(static=True)

    @property
    def spec(self) -> env.EnvSpec:
        """The spec of the gymnasium spaces. A Box with three axes is a board, channels last."""
        leaves = jax.tree.leaves(self.host.shape)
        is_board = [len(leaf.shape) for leaf in leaves] == [3]
        encode = env.board_features if is_board else env.flat_features
        return env.EnvSpec(self.host.num_actions, self.host.shape, encode=encode)

    @property
    def truncates(self) -> bool:
        """Always true: gymnasium limits the steps of most games."""
        return True

    @property
    def title(self) -> str:
        """The id of the game, if gymnasium has made it by that."""
        return self.host.title

    @property
    def pure(self) -> bool:
        """Always false: Python holds the games."""
        return False

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[HostState, env.Timestep]:
        """Begins a new batch."""
        num_envs = keys.shape[0]
        seeds = jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(keys) >> np.uint32(1)
        shapes = (jax.ShapeDtypeStruct((num_envs,), jnp.int32), *self._shapes(num_envs))
        number, seen, mask = io_callback(self.host.reset, shapes, seeds)
        zero = jnp.zeros(num_envs, jnp.float32)
        no = jnp.zeros(num_envs, bool)
        none = jnp.zeros(num_envs, jnp.int32)
        state = HostState(number, none, zero, none, self.host)
        return state, _timestep(state, (seen, seen, mask, mask, zero, no, no))

    def step(
        self, state: HostState, actions: Int32[Array, " num_envs"], keys: Key[Array, " num_envs"]
    ) -> tuple[HostState, env.Timestep]:
        """Plays one action in each game."""
        check_actions(actions, keys)
        num_envs = keys.shape[0]
        batch, masks = self._shapes(num_envs)
        flags = jax.ShapeDtypeStruct((num_envs,), bool)
        reward = jax.ShapeDtypeStruct((num_envs,), jnp.float32)
        shapes = (batch, batch, masks, masks, reward, flags, flags)
        played = io_callback(self.host.step, shapes, state.batch, state.step, actions)
        *_, reward, terminated, truncated = played
        total, length = state.total_reward + reward, state.length + 1
        after = replace(state, step=state.step + 1, total_reward=total, length=length)
        done = terminated | truncated
        total, length = jnp.where(done, 0.0, total), jnp.where(done, 0, length)
        return replace(after, total_reward=total, length=length), _timestep(after, played)

    def draw(self, state: HostState, game: int = 0) -> np.ndarray | None:
        """What the game draws in the mode `rgb_array`, at the newest step alone."""
        return frame if isinstance(frame := self._drawn(state, game), np.ndarray) else None

    def render(self, state: HostState, game: int = 0) -> str | None:
        """What the game draws in the mode `ansi`, at the newest step alone."""
        frame = self._drawn(state, game)
        return _COLOURS.sub("", frame) if isinstance(frame, str) else None

    def _drawn(self, state: HostState, game: int) -> Any:
        return self.host.draw(int(state.batch[game]), int(state.step[game]), game)

    def drawable(self, report: Callable[[str], None]) -> "GymnasiumGames":
        """Games that draw themselves, where gymnasium has made these by their name."""
        drawn = self.host.drawn(report)
        return self if drawn is None else GymnasiumGames(drawn)

    def final_state(
        self,
        before: HostState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
        after: HostState,
    ) -> HostState | None:
        """The state after the step, where the games do not reset themselves."""
        return None if self.host.resets else after

    def _shapes(self, num_envs: int) -> tuple[PyTree, jax.ShapeDtypeStruct]:
        batch = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((num_envs, *leaf.shape), leaf.dtype), self.host.shape
        )
        return batch, jax.ShapeDtypeStruct((num_envs, self.host.num_actions), bool)


def _timestep(last: HostState, played: Any) -> env.Timestep:
    seen, last_seen, mask, last_mask, reward, terminated, truncated = played
    return env.Timestep(
        observation=seen,
        mask=mask,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        last_observation=last_seen,
        last_mask=last_mask,
        terms={},
        episode=env.EpisodeStatistics(total_reward=last.total_reward, length=last.length),
    )


def from_gymnasium(make: str | Callable[[int], Any], **settings: Any) -> GymnasiumGames:
    """Games of gymnasium as an `Environment` of this package; slower, since Python plays them.

    Args:
        make: an id for `gymnasium.make_vec`, such as `"CartPole-v1"`; or a function that makes a
            `VectorEnv` of a given number of games, which resets a game in the step that ends it
            (`AutoresetMode.SAME_STEP`). `info["action_mask"]` may hold the legal actions.
        settings: passed to `gymnasium.make_vec`, such as `vectorization_mode="async"`.

    Raises:
        ConfigError: gymnasium is not installed.
        TypeError: `make` returns something else.
        ValueError: actions or observations are of a kind that this package does not read, or the
            games reset themselves in another step.
    """
    gymnasium = require("gymnasium", extra="gymnasium", caller="from_gymnasium")
    if not isinstance(make, str):
        return GymnasiumGames(Host(make))
    if "num_envs" in settings:
        raise ValueError(
            "num_envs is a setting of the training: PPO(..., num_envs=...), or --num-envs"
        )
    given = {"vectorization_mode": "sync", **settings}
    # A vector environment of the game's own may reset in another step: so never by default.
    mode = getattr(given["vectorization_mode"], "value", given["vectorization_mode"])
    if mode in ("sync", "async"):
        kwargs = given.get("vector_kwargs", {})
        if not isinstance(kwargs, Mapping):
            raise ValueError(f"vector_kwargs is {kwargs!r}; expected a dict, in Python")
        defaults: dict[str, Any] = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        if mode == "async":
            defaults["context"] = start_method()
            given["wrappers"] = [uninterrupted(), *(given.get("wrappers") or ())]
        given["vector_kwargs"] = {**defaults, **kwargs}
        if given["vector_kwargs"].get("context") == "fork":
            raise ValueError(FORKS)

    @contextmanager
    def foreign() -> Iterator[None]:
        try:
            with making("gymnasium"):
                yield
        except ValueError as error:
            unknown = isinstance(error.__cause__, gymnasium.error.UnregisteredEnv)
            malformed = type(error.__cause__) is gymnasium.error.Error
            known = gymnasium.registry
            if unknown or (malformed and make not in known):
                listed = "gymnasium.pprint_registry() lists what it has"
                wrong = no_such("gymnasium has no environment", make, known, listed)
                raise ValueError(wrong) from error
            raise

    def by_name(count: int) -> Any:
        return gymnasium.make_vec(make, num_envs=count, **given)

    host = Host(by_name, foreign=foreign)
    host.drawn = partial(_drawn_host, make, given, host.render_modes)
    return GymnasiumGames(host)


def _drawn_host(
    name: str, given: Mapping[str, Any], modes: Collection[str], report: Callable[[str], None]
) -> Host | None:
    """Games by name that draw themselves and do not reset; `None` where none can be drawn."""
    import gymnasium

    disabled = gymnasium.vector.AutoresetMode.DISABLED
    given = {name: each for name, each in given.items() if name not in ("render_mode", "context")}
    given |= {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": disabled}}
    why = f"it has the render modes {', '.join(modes) or 'none'}"
    for mode in ("rgb_array", "ansi"):
        if mode not in modes:
            continue
        made: dict[str, Any] = {**given, "render_mode": mode}

        def make(count: int, made: Mapping[str, Any] = made) -> Any:
            return gymnasium.make_vec(name, num_envs=count, **made)

        games = make(1)
        try:
            games.reset(seed=[0])
            games.render()
        except Exception as error:  # foreign code
            why = printable(first_line(error), 300)
            continue
        finally:
            games.close()
        return Host(make, check=_no_check, resets=False)
    report(f"{name} cannot be drawn: {why}. Its observations are shown.")
    return None


def _no_check(games: Any) -> None:
    """These games are made here."""


class Trials:
    """Tasks of NeuroGym side by side, with the methods of a gymnasium `VectorEnv`.

    NeuroGym begins the next trial in the step that ends one, and shows its first position. So
    nobody sees the last position of a trial; an end by the rules does not need it.
    """

    def __init__(self, make: Callable[[], Any], count: int) -> None:
        self._tasks = [make() for _ in range(count)]
        for task in self._tasks:
            if not hasattr(task.unwrapped, "new_trial"):
                raise ValueError(f"{task.unwrapped} has no trials; expected a neurogym.TrialEnv")
        self.single_observation_space = self._tasks[0].observation_space
        self.single_action_space = self._tasks[0].action_space

    def reset(self, *, seed: list[int]) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a trial of each task, with its own seed. NeuroGym plays its first step."""
        seen = []
        for task, own in zip(self._tasks, seed, strict=True):
            task.unwrapped.seed(own)
            seen.append(task.reset(seed=own)[0])
        return np.stack(seen), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays an action in each; a trial that ends is terminated."""
        played = [task.step(int(action)) for task, action in zip(self._tasks, actions, strict=True)]
        seen = np.stack([each[0] for each in played])
        reward = np.asarray([each[1] for each in played], np.float32)
        terminated = np.asarray([each[4]["new_trial"] or each[2] for each in played], bool)
        return seen, reward, terminated, np.zeros_like(terminated), {"final_obs": seen}

    def close(self) -> None:
        for task in self._tasks:
            task.close()


def from_neurogym(make: str | Callable[[], Any], **settings: Any) -> GymnasiumGames:
    """Tasks of NeuroGym as an `Environment` of this package; slower, since Python plays them.

    Each trial is an episode, which ends by the rules. NeuroGym needs an old gymnasium, so it is an
    extra that does not go together with `gymnasium`.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".

    Args:
        make: a name, such as `"DelayMatchSample-v0"`; or a function that makes a
            `neurogym.TrialEnv`.
        settings: passed to the task of that name, such as `sigma=0.0` or `timing={...}`.

    Raises:
        ConfigError: neurogym is not installed.
        ValueError: the task has no trials, or actions or observations are of a kind that this
            package does not read.
    """
    neurogym = require("neurogym", extra="neurogym", caller="from_neurogym")
    if isinstance(make, str):
        one: Callable[[], Any] = partial(neurogym.make, make, **settings)
        foreign: Callable[[], AbstractContextManager[None]] = partial(making, "neurogym")
    else:
        one, foreign = make, nullcontext
    host = Host(partial(Trials, one), check=lambda games: None, foreign=foreign)
    return GymnasiumGames(host)
