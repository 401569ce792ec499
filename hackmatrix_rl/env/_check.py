"""Checks of an environment by playing it."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from hackmatrix_rl.env._contract import check_shapes
from hackmatrix_rl.env._environment import LEARNED_RETURN, Environment, Timestep, env_keys
from hackmatrix_rl.env._held_games import closing_games
from hackmatrix_rl.env._pictures import check_pictures
from hackmatrix_rl.system.errors import check_jax, check_key, path_in_words, place, whole

# Number of replayed steps: the same keys and actions must give the same timesteps.
REPLAYED = 8


def check_environment(
    environment: Any, *, steps: int = 200, num_envs: int = 16, key: Key[Array, ""] | None = None
) -> None:
    """Checks the contract of an environment by playing random legal actions.

    First it checks all shapes and dtypes, and the results of `render` and `draw`. Then it plays
    games and checks at every step:

    - At least one action is legal.
    - Rewards, observations and features are finite.
    - An episode is terminated or truncated, not both. It is truncated only if `truncates` is
      true.
    - The last observation equals the observation where no episode ended.
    - The statistics of an ended episode match its steps and rewards.

    Finally it replays the first steps. The same keys and actions must give the same games, also in
    a batch with other games.

    Args:
        environment: an instance of `Environment`.
        steps: number of steps of each game. The end of an episode is checked only if an episode
            ends within them.
        num_envs: number of games in the batch; at least 2.
        key: source of randomness; by default a fixed key.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: another check failed. The message says what was found, what was expected,
            and what to change.

    Warns:
        UserWarning: no episode ended.
    """
    steps, num_envs = whole("steps", steps), whole("num_envs", num_envs, minimum=2)
    check_jax()
    key = jax.random.key(0) if key is None else key
    check_key(key)
    check_shapes(environment)
    check_pictures(environment)
    own, other = (env_keys(key, num_envs, first=first) for first in (0, num_envs))
    program = _Program(environment)
    played = _play(program, own, steps=steps, inspect=_Inspector(environment, num_envs))
    again = _play(_Program(environment), own, steps=REPLAYED, actions=played)
    _compare(environment, "with the same keys and actions", played, again, num_envs)
    half = num_envs // 2
    mixed = jax.numpy.concatenate([own[:half], other[half:]])
    batched = _play(program, mixed, steps=REPLAYED, actions=played, fixed=half)
    _compare(environment, "in a batch with other games", played, batched, half)


class _Program:
    """A compiled environment. Each instance traces the environment again."""

    def __init__(self, environment: Environment) -> None:
        spec = environment.spec
        self.draw: Any = jax.jit(jax.vmap(lambda mask, key: spec.actions.sample(mask, key=key)))

        def with_features(state: Any, timestep: Timestep) -> tuple[Any, Timestep, Any]:
            return state, timestep, jax.vmap(spec.encode)(timestep.observation)

        self.reset: Any = jax.jit(lambda keys: with_features(*environment.reset(keys)))
        self.step: Any = jax.jit(lambda *given: with_features(*environment.step(*given)))


class _Moment(NamedTuple):
    """The actions of one step (`None` for the reset) and the timestep they led to, on the host."""

    actions: Any
    timestep: Any


def _play(
    program: _Program,
    keys: Key[Array, " num_envs"],
    *,
    steps: int,
    inspect: "_Inspector | None" = None,
    actions: list[_Moment] | None = None,
    fixed: int | None = None,
) -> list[_Moment]:
    """Plays `steps` steps with random legal actions, or with given ones."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    state, timestep, features = program.reset(fold(keys, 0))
    with closing_games(state):
        timestep = jax.device_get(timestep)
        moments = [_Moment(None, timestep)]
        if inspect:
            inspect.first(timestep, jax.device_get(features))
        for number in range(1, min(steps, len(actions) - 1 if actions else steps) + 1):
            draws = jax.random.split(jax.random.fold_in(jax.random.key(0), number), keys.shape[0])
            chosen = np.array(program.draw(timestep.mask, draws))
            if actions:
                chosen[:fixed] = actions[number].actions[:fixed]
            state, timestep, features = program.step(state, chosen, fold(keys, number))
            timestep = jax.device_get(timestep)
            if inspect:
                inspect.next(timestep, jax.device_get(features), number)
            if number <= REPLAYED:
                moments.append(_Moment(chosen, timestep))
    if inspect:
        inspect.end(steps)
    return moments


class _Inspector:
    """Checks timesteps sequentially, and sums the steps and rewards of each episode."""

    def __init__(self, environment: Environment, num_envs: int) -> None:
        self._environment = environment
        self._actions = environment.spec.actions
        self._truncates = environment.truncates
        self._total = np.zeros(num_envs)
        self._moved = np.zeros(num_envs)  # the sum of the absolute rewards
        self._length = np.zeros(num_envs, int)
        self._lengths: list[list[int]] = [[] for _ in range(num_envs)]
        self._where = ""

    def first(self, timestep: Any, features: Any) -> None:
        """Checks the timestep of `reset`."""
        self._where = f"{place(self._environment, 'reset')}:"
        self._look(timestep, features)
        ended = timestep.terminated | timestep.truncated
        self._refuse(ended, "an episode has ended already; expected False everywhere")
        self._refuse(timestep.reward != 0, "reward is {}; expected 0", timestep.reward)

    def next(self, timestep: Any, features: Any, number: int) -> None:
        """Checks the timestep of step `number`."""
        self._where = f"{place(self._environment, 'step')} at step {number}:"
        self._look(timestep, features)
        self._refuse(
            timestep.terminated & timestep.truncated,
            "terminated and truncated are both True; expected one of them: truncated & ~terminated",
        )
        if not self._truncates:
            self._refuse(
                timestep.truncated,
                f"truncated is True, but {place(self._environment, 'truncates')} says False; "
                "return True there, or terminated where nothing can follow",
            )
        self._total += timestep.reward
        self._moved += np.abs(timestep.reward)
        self._length += 1
        done = timestep.terminated | timestep.truncated
        self._check_statistics(timestep, done)
        for game in np.flatnonzero(done):
            self._lengths[game].append(int(self._length[game]))
        self._total[done] = self._moved[done] = self._length[done] = 0

    def end(self, steps: int) -> None:
        """Checks all episodes together: some ended, and their environments were reset."""
        firsts = [lengths[0] for lengths in self._lengths if lengths]
        later = [length for lengths in self._lengths for length in lengths[1:]]
        if not firsts:
            warnings.warn(
                f"{type(self._environment).__name__}: no episode ended in {steps} steps, so that "
                "resets, truncation and the statistics of episodes were not checked; use "
                f"check_environment(..., steps={10 * steps})",
                UserWarning,
                stacklevel=4,
            )
        # A game without a reset ends again at every step.
        if len(later) >= 8 and max(later) == 1 and min(firsts) > 1:
            raise ValueError(
                f"{place(self._environment, 'step')}: all {len(later)} episodes after the first "
                f"ones last 1 step, the first ones {min(firsts)} or more; expected games that are "
                "reset where they ended: jnp.where(done, new_game, game)"
            )

    def _look(self, timestep: Any, features: Any) -> None:
        """Checks the conditions on every timestep."""
        lacking = self._actions.lacks_action(timestep.mask)
        self._refuse(lacking, "mask has no legal action; expected one or more")
        seen = {
            "observation": timestep.observation,
            "last_observation": timestep.last_observation,
            "features of the observation (spec.encode)": features,
            "reward": timestep.reward,
            "terms": timestep.terms,
        }
        for name, tree in seen.items():
            self._check_finite(name, tree)
        done = timestep.terminated | timestep.truncated
        pairs = {
            "observation": (timestep.observation, timestep.last_observation),
            "mask": (timestep.mask, timestep.last_mask),
        }
        for name, (now, last) in pairs.items():
            for path, one, other in _pairs(now, last):
                what = path_in_words(name, path)
                said = f"last_{what} is not {what}; expected the same where no episode ended"
                self._refuse(~done & _differs(one, other), said)

    def _check_finite(self, name: str, tree: Any) -> None:
        for path, leaf in jax.tree.leaves_with_path(tree):
            if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact):
                odd = ~np.isfinite(leaf).reshape(leaf.shape[0], -1).all(axis=1)
                value = "NaN" if np.isnan(leaf).any() else "infinite"
                self._refuse(odd, f"{path_in_words(name, path)} is {value}; expected numbers")

    def _check_statistics(self, timestep: Any, done: np.ndarray) -> None:
        episode = timestep.episode
        self._refuse(
            done & (episode.length != self._length),
            "episode.length is {}, but the episode that ended had {} steps; count each step, and "
            "start at 0 after a reset",
            episode.length,
            self._length,
        )
        learned = LEARNED_RETURN in episode.extra
        name = f"extra[{LEARNED_RETURN!r}]" if learned else "total_reward"
        reported = episode.extra[LEARNED_RETURN] if learned else episode.total_reward
        # The tolerance of a sum in float32.
        apart = np.abs(reported - self._total) > 1e-3 * self._moved + 1e-6
        self._refuse(
            done & (apart | ~np.isfinite(reported)),
            f"episode.{name} is {{}}, but the rewards of the episode that ended add up to {{}}; "
            "add each reward, and start at 0 after a reset",
            reported,
            self._total,
        )
        numbers = {f"extra[{name!r}]": values for name, values in episode.extra.items()}
        for name, values in {"total_reward": episode.total_reward, **numbers}.items():
            said = f"episode.{name} is {{}}; expected a number"
            self._refuse(done & ~np.isfinite(values), said, values)

    def _refuse(self, where: np.ndarray, said: str, *values: np.ndarray) -> None:
        """Raises a ValueError with the values of the first game in which `where` is true."""
        if where.any():
            game = int(np.flatnonzero(where)[0])
            numbers = [f"{value[game]:.6g}" for value in values]
            raise ValueError(f"{self._where} in game {game}, {said.format(*numbers)}")


def _differs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which games differ by more than rounding errors."""
    if np.issubdtype(one.dtype, np.floating):
        same = np.isclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    else:
        same = one == other
    return ~same.reshape(one.shape[0], -1).all(axis=1)


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    for (path, leaf), counterpart in zip(
        jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True
    ):
        yield path, leaf, counterpart


def _compare(
    environment: Environment, how: str, first: list[_Moment], second: list[_Moment], games: int
) -> None:
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        for path, leaf, again in _pairs(one.timestep, other.timestep):
            differs = _differs(leaf[:games], again[:games])
            if differs.any():
                method = "step" if number else "reset"
                name = path_in_words("timestep", path)
                raise ValueError(
                    f"{place(environment, method)}: played again {how}, {name} is another in game "
                    f"{int(np.flatnonzero(differs)[0])} after {number} steps; expected a game to "
                    "depend on its own keys and actions alone: draw with jax.random from these "
                    "keys, and let nothing look across the batch"
                )
