"""Environments of gymnasium and NeuroGym in this package: JAX calls Python, which plays them."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jaxtyping import Array, Key, PyTree, Shaped

from hackmatrix_rl import env
from hackmatrix_rl.interop.adapters._extras import making, no_such
from hackmatrix_rl.interop.adapters._host import Host, HostState
from hackmatrix_rl.interop.adapters._workers import (
    FORKS,
    check_not_forks,
    start_method,
    uninterrupted,
)
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import first_line, printable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@final
class GymnasiumGames(env.Environment):
    """A vector environment of gymnasium. Python plays it, so it is slower than one in JAX.

    The games live in this process: checkpoints do not contain them, each state can be stepped only
    once, and one device plays all of them. `reset` starts a new batch with seeds from its keys;
    `step` ignores its keys, because gymnasium's games draw from their seeds. Evaluations close
    their batches, and a `Trainer` keeps its batches open as long as its state. If you call `reset`
    yourself, call the state's `close()` when you are done; otherwise the batch stays open until the
    process ends.

    Source: Towers et al. 2024, "Gymnasium: a standard interface for reinforcement learning
    environments".
    """

    host: Host = eqx.field(static=True)

    @property
    def spec(self) -> env.EnvSpec:
        """The spec of the gymnasium spaces. A Box of rank 3 is a board, channels last."""
        leaves = jax.tree.leaves(self.host.shape)
        is_board = [len(leaf.shape) for leaf in leaves] == [3]
        encode = env.board_features if is_board else env.flat_features
        return env.EnvSpec(self.host.actions, self.host.shape, encode=encode)

    @property
    def truncates(self) -> bool:
        """Always true: gymnasium limits the steps of most games."""
        return True

    @property
    def title(self) -> str:
        """The id of the environment in gymnasium's registry; "gymnasium" if it has none."""
        return self.host.title

    @property
    def pure(self) -> bool:
        """Always false: Python holds the games."""
        return False

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[HostState, env.Timestep]:
        """Starts a new batch."""
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
        self,
        state: HostState,
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[HostState, env.Timestep]:
        """Plays one action in each game."""
        self.host.actions.check(actions, keys)
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
        """The game's `rgb_array` frame; `None` unless `state` is its latest."""
        return frame if isinstance(frame := self._drawn(state, game), np.ndarray) else None

    def render(self, state: HostState, game: int = 0) -> str | None:
        """The game's `ansi` text; `None` unless `state` is its latest."""
        frame = self._drawn(state, game)
        return _COLOURS.sub("", frame) if isinstance(frame, str) else None

    def _drawn(self, state: HostState, game: int) -> Any:
        return self.host.draw(int(state.batch[game]), int(state.step[game]), game)

    def drawable(self, report: Callable[[str], None]) -> "GymnasiumGames":
        """These games with a render mode. Games of a custom `make` are returned unchanged."""
        drawn = self.host.drawn(report)
        return self if drawn is None else GymnasiumGames(drawn)

    def final_state(
        self,
        before: HostState,
        actions: Shaped[Array, "num_envs *action"],
        keys: Key[Array, " num_envs"],
        after: HostState,
    ) -> HostState | None:
        """The state after the step, where the games do not reset themselves."""
        return None if self.host.resets else after

    def _shapes(self, num_envs: int) -> tuple[PyTree, jax.ShapeDtypeStruct]:
        batch = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((num_envs, *leaf.shape), leaf.dtype), self.host.shape
        )
        return batch, jax.ShapeDtypeStruct((num_envs, self.host.actions.mask_size), bool)


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


def _check(games: Any) -> None:
    """Raises unless `games` is a vector environment that the adapter can step."""
    from gymnasium.vector import AutoresetMode, VectorEnv

    if not isinstance(games, VectorEnv):
        raise TypeError(f"make returned {type(games).__name__}; expected a gymnasium VectorEnv")
    if games.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"autoreset_mode is {games.metadata.get('autoreset_mode')}; expected "
            "AutoresetMode.SAME_STEP: vector_kwargs={'autoreset_mode': AutoresetMode.SAME_STEP}"
        )
    check_not_forks(games)


def from_gymnasium(make: str | Callable[[int], Any], **settings: Any) -> GymnasiumGames:
    """A gymnasium environment as an `Environment` of this package; slower, since Python plays it.

    Args:
        make: an id for `gymnasium.make_vec`, such as `"CartPole-v1"`; or a function from a number
            of games to a `VectorEnv` that resets a game in the step that ends it
            (`AutoresetMode.SAME_STEP`). `info["action_mask"]` may hold the legal actions.
        settings: passed to `gymnasium.make_vec`, such as `vectorization_mode="async"`.

    Raises:
        ConfigError: gymnasium is not installed.
        TypeError: `make` does not return a `VectorEnv`.
        ValueError: the spaces of actions or observations are not supported, or the autoreset mode
            is not `SAME_STEP`.
    """
    gymnasium = require("gymnasium", extra="gymnasium", caller="from_gymnasium")
    if not isinstance(make, str):
        return GymnasiumGames(Host(make, check=_check))
    if "num_envs" in settings:
        raise ValueError(
            "num_envs is a setting of the training: PPO(..., num_envs=...), or --num-envs"
        )
    given = {"vectorization_mode": "sync", **settings}
    # Not gymnasium's default: an environment's custom VectorEnv may use another autoreset mode.
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

    host = Host(by_name, check=_check, foreign=foreign)
    host.drawn = partial(_drawn_host, make, given, host.render_modes)
    return GymnasiumGames(host)


def _drawn_host(
    name: str, given: Mapping[str, Any], modes: Collection[str], report: Callable[[str], None]
) -> Host | None:
    """A host of the same games with a render mode and no autoreset; `None` if none can be drawn."""
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
        return Host(make, resets=False)
    report(f"{name} cannot be drawn: {why}. Its observations are shown.")
    return None


class Trials:
    """A batch of NeuroGym tasks with the methods of a gymnasium `VectorEnv`.

    The step that ends a trial returns the first observation of the next trial, so the last
    observation of a trial is unknown. A terminated trial does not need it: nothing bootstraps from
    there.
    """

    def __init__(self, make: Callable[[], Any], count: int) -> None:
        self._tasks = [make() for _ in range(count)]
        for task in self._tasks:
            if not hasattr(task.unwrapped, "new_trial"):
                raise ValueError(f"{task.unwrapped} has no trials; expected a neurogym.TrialEnv")
        self.single_observation_space = self._tasks[0].observation_space
        self.single_action_space = self._tasks[0].action_space

    def reset(self, *, seed: list[int]) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a trial of each task, with one seed per task. NeuroGym plays its first step."""
        seen = []
        for task, its_seed in zip(self._tasks, seed, strict=True):
            task.unwrapped.seed(its_seed)
            seen.append(task.reset(seed=its_seed)[0])
        return np.stack(seen), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays one action in each task. The end of a trial is a termination."""
        played = [task.step(each) for task, each in zip(self._tasks, actions.tolist(), strict=True)]
        seen = np.stack([each[0] for each in played])
        reward = np.asarray([each[1] for each in played], np.float32)
        terminated = np.asarray([each[4]["new_trial"] or each[2] for each in played], bool)
        return seen, reward, terminated, np.zeros_like(terminated), {"final_obs": seen}

    def close(self) -> None:
        for task in self._tasks:
            task.close()


def from_neurogym(make: str | Callable[[], Any], **settings: Any) -> GymnasiumGames:
    """A NeuroGym task as an `Environment` of this package; slower, since Python plays it.

    Each trial is an episode, and its end is a termination. NeuroGym needs an old version of
    gymnasium, so the extras `neurogym` and `gymnasium` exclude each other.

    Source: Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing
    neuroscience tasks".

    Args:
        make: an id for `neurogym.make`, such as `"DelayMatchSample-v0"`; or a function that returns
            a `neurogym.TrialEnv`.
        settings: passed to `neurogym.make`, such as `sigma=0.0` or `timing={...}`.

    Raises:
        ConfigError: neurogym is not installed.
        ValueError: the task has no trials, or its spaces of actions or observations are not
            supported.
    """
    neurogym = require("neurogym", extra="neurogym", caller="from_neurogym")
    if isinstance(make, str):
        one: Callable[[], Any] = partial(neurogym.make, make, **settings)
        foreign: Callable[[], AbstractContextManager[None]] = partial(making, "neurogym")
    else:
        one, foreign = make, nullcontext
    return GymnasiumGames(Host(partial(Trials, one), foreign=foreign))
