"""Plays the first episode of each environment of a batch, or one game step by step."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree, Shaped

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import (
    Discrete,
    Environment,
    EpisodeStatistics,
    Timestep,
    closing_games,
    env_keys,
    start_games,
    start_key,
    step_keys,
)
from hackmatrix_rl.evaluation._player import Agent, Thought, acting, read_by, thinking
from hackmatrix_rl.system import quickly_compiled

MOST_STEPS = 256
"""Most steps in one call of the compiled loop."""

# A call that takes fewer seconds is followed by a longer one, one that takes more by a shorter one.
_QUICK, _SLOW = 0.25, 1.0


class Play(eqx.Module):
    """The environments of all players in one batch, player by player, in their first episodes."""

    state: PyTree[Array]
    timestep: Timestep
    carries: tuple[PyTree[Array], ...]
    totals: EpisodeStatistics
    done: Bool[Array, " all_envs"]
    truncated: Bool[Array, " all_envs"]  #: Whether the environment's step limit ended the episode.
    step: Int32[Array, ""]


def play_episodes(
    players: tuple[Agent, ...],
    environment: Environment,
    keys: Key[Array, " num_envs"],
    *,
    max_steps: int,
    record: bool,
    on_progress: Callable[[np.ndarray], None],
) -> tuple[EpisodeStatistics, np.ndarray, np.ndarray | None]:
    """Plays each environment's first episode with each player.

    The compiled loop returns to the host about once per second, which changes no result.
    `on_progress` gets whether each episode has ended; its first call is before the first step.
    Returns the totals and whether each episode ended before the step limits of the evaluation and
    of the environment, `[players, num_envs]`, and the actions `[steps, players, num_envs, ...]`, or
    `None` unless `record`.
    """
    shape = (len(players), keys.shape[0])
    play = _begin(players, environment, keys)
    step, done = 0, np.zeros(shape, bool)
    recorded: list[np.ndarray] = []
    most, until = 4, 0  # the first call only compiles
    with closing_games(play):
        while True:
            began = time.perf_counter()
            play, actions = _advance(players, environment, keys, play, _count(until), record)
            before, step = step, int(play.step)
            done = np.asarray(play.done).reshape(shape)
            if actions is not None:
                space = environment.spec.actions
                small = np.min_scalar_type(space.n) if isinstance(space, Discrete) else space.dtype
                recorded.append(np.asarray(actions)[: step - before].astype(small))
            on_progress(done)
            if done.all() or step >= max_steps:
                break
            if until:
                most = _paced(most, time.perf_counter() - began)
            until = min(step + most, max_steps)
    totals: EpisodeStatistics = jax.tree.map(
        lambda leaf: np.asarray(leaf).reshape(shape), play.totals
    )
    terminated = done & ~np.asarray(play.truncated).reshape(shape)
    if not record:
        return totals, terminated, None
    every = np.concatenate(recorded)
    return totals, terminated, every.reshape(-1, *shape, *every.shape[2:])


def _paced(steps: int, seconds: float) -> int:
    """The number of steps of the next call, after a call with these steps and seconds."""
    if seconds < _QUICK:
        return min(4 * steps, MOST_STEPS)  # each call copies the full state
    return max(steps // 2, 1) if seconds > _SLOW else steps


@quickly_compiled
def _begin(
    players: tuple[Agent, ...], environment: Environment, keys: Key[Array, " num_envs"]
) -> Play:
    num_envs = keys.shape[0]
    all_keys = jnp.tile(keys, len(players))
    state, timestep = environment.reset(jax.vmap(start_key)(all_keys))
    return Play(
        state=state,
        timestep=timestep,
        carries=tuple(start_carries(player, num_envs) for player in players),
        totals=timestep.episode,
        done=jnp.zeros(all_keys.shape[0], bool),
        truncated=jnp.zeros(all_keys.shape[0], bool),
        step=jnp.zeros((), jnp.int32),
    )


@quickly_compiled
def _advance(
    players: tuple[Agent, ...],
    environment: Environment,
    keys: Key[Array, " num_envs"],
    play: Play,
    until: Int32[Array, ""],
    record: bool,
) -> tuple[Play, Shaped[Array, "most_steps all_envs *action"] | None]:
    """Plays until step `until`, or until all episodes have ended."""
    num_envs = keys.shape[0]
    all_keys = jnp.tile(keys, len(players))
    first = play.step
    space = environment.spec.actions
    recorded = space.zeros(MOST_STEPS, all_keys.shape[0]) if record else None

    def act(play: Play, keys: Key[Array, " all_envs"]) -> tuple[Array, tuple[PyTree, ...]]:
        """Each player acts in its part of the batch."""
        masks = play.timestep.mask
        # One legal action where the episode has ended, so that a search does no work there.
        first = masks & (jnp.cumsum(masks, axis=1, dtype=jnp.int32) == 1)
        masks = jnp.where(play.done[:, None], first, masks)
        chosen = []
        for place, (player, carry) in enumerate(zip(players, play.carries, strict=True)):
            own = slice(place * num_envs, (place + 1) * num_envs)
            read = read_by(player, play.timestep.observation, lambda: play.state.games)
            observation = jax.tree.map(lambda leaf, own=own: leaf[own], read)
            chosen.append(jax.vmap(acting(player))(observation, masks[own], carry, keys[own]))
        actions, carries = zip(*chosen, strict=True)
        return jnp.concatenate(actions), carries

    def unfinished(carry: tuple[Play, Array | None]) -> Bool[Array, ""]:
        play, _ = carry
        return ~jnp.all(play.done) & (play.step < until)

    def step(carry: tuple[Play, Array | None]) -> tuple[Play, Array | None]:
        play, recorded = carry
        act_keys, play_keys = jax.vmap(step_keys, in_axes=(0, None))(all_keys, play.step)
        actions, carries = act(play, act_keys)
        if recorded is not None:
            recorded = recorded.at[play.step - first].set(actions)
        state, timestep = environment.step(play.state, actions, play_keys)
        # The totals stop changing when the first episode ends.
        totals = jax.tree.map(
            lambda new, old: jnp.where(play.done, old, new), timestep.episode, play.totals
        )
        return Play(
            state=state,
            timestep=timestep,
            carries=carries,
            totals=totals,
            done=play.done | timestep.done,
            truncated=jnp.where(play.done, play.truncated, timestep.truncated),
            step=play.step + 1,
        ), recorded

    return jax.lax.while_loop(unfinished, step, (play, recorded))


def start_carries(player: Agent | ActorCritic, num_envs: int) -> PyTree[Array]:
    """The initial carry of a player, for each game."""
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (num_envs, *leaf.shape)), player.initial_carry()
    )


@dataclass(frozen=True)
class Step:
    """A position, and a player's action in it."""

    state: PyTree[Array]  #: The state of the environment, a batch of one game.
    mask: np.ndarray  #: The legal actions.
    thought: Thought  #: The player's assessment of the position.
    action: Any  #: The action that the player took: an int, or an array for another space.
    reward: float  #: Its reward.
    terms: dict[str, float]  #: The terms of the reward by name.
    end: str  #: `terminated` or `truncated` if the action ended the episode; else empty.
    seen: Any = None  #: The result of `look`.
    #: `look` at the last position, after the end; `None` before it.
    last_seen: Any = None


Look = Callable[[PyTree[Array] | None, PyTree[Array]], Any]
"""A function of a state (a batch of one game) and its observation (without a batch axis)."""


def play_steps(
    player: Agent,
    environment: Environment,
    key: Key[Array, ""],
    *,
    game: int = 0,
    max_steps: int = 20_000,
    look: Look = lambda state, observation: None,
) -> Iterator[Step]:
    """Plays game number `game` of `evaluate` with the same key, and yields each step.

    `look` is called with each position before the player acts, because games in Python cannot
    return to it. The state of the last position is `None` if the environment does not keep it.
    """
    keys = env_keys(key, 1, first=game)
    state, timestep = start_games(environment, keys)
    carry = jax.tree.map(lambda leaf: leaf[None], player.initial_carry())
    with closing_games(state):
        for number in range(max_steps):
            before, seen = state, look(state, _first(timestep.observation))
            mask = np.asarray(timestep.mask)[0]
            state, timestep, carry, action, thought, final = _step(
                player, environment, state, timestep, carry, keys, _count(number)
            )
            ends = {"terminated": timestep.terminated, "truncated": timestep.truncated}
            fetched = jax.device_get((timestep.reward, timestep.terms, ends, action, thought))
            reward, terms, ends, action, thought = jax.tree.map(lambda leaf: leaf[0], fetched)
            end = next((name for name, flag in ends.items() if flag), "")
            yield Step(
                state=before,
                mask=mask,
                thought=thought,
                action=action if np.ndim(action) else int(action),
                reward=float(reward),
                terms={name: float(term) for name, term in terms.items()},
                end=end,
                seen=seen,
                last_seen=look(final, _first(timestep.last_observation)) if end else None,
            )
            if end:
                return


def _count(number: int) -> Int32[Array, ""]:
    """A number on the device; unlike `jnp.asarray`, this compiles nothing."""
    return jax.device_put(np.int32(number))


def _first(tree: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: leaf[0], tree)


@quickly_compiled
def _step(
    player: Agent,
    environment: Environment,
    state: PyTree[Array],
    timestep: Timestep,
    carry: PyTree[Array],
    keys: Key[Array, " one"],
    number: Int32[Array, ""],
) -> tuple[PyTree[Array], Timestep, PyTree[Array], Array, Thought, PyTree[Array]]:
    """One step of a batch of one game; the last result is the state before a reset, if kept."""
    act_keys, play_keys = jax.vmap(step_keys, (0, None))(keys, number)
    read = read_by(player, timestep.observation, lambda: state.games)
    action, carry, thought = jax.vmap(thinking(player))(read, timestep.mask, carry, act_keys)
    after, timestep = environment.step(state, action, play_keys)
    final = environment.final_state(state, action, play_keys, after)
    return after, timestep, carry, action, thought, final
