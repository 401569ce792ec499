"""How well a policy plays, over whole episodes and without a bias to short ones."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import (
    Environment,
    EpisodeStatistics,
    Timestep,
    env_keys,
)
from hackmatrix_rl.errors import (
    check_key,
    whole,
)
from hackmatrix_rl.evaluation._contract import check_environment_and_players
from hackmatrix_rl.evaluation._estimate import (
    Estimate,
    mean_of,
    rate_of,
)
from hackmatrix_rl.evaluation._keys import start_key, step_keys
from hackmatrix_rl.evaluation._player import (
    Agent,
    PolicyAgent,
)


@dataclass(frozen=True)
class Evaluation:
    """The results of some episodes.

    Attributes:
        episodes: number of episodes.
        values: by name, one number for each episode: `return`, `length`, and the
            environment's own (`stage`, `score`, `won` ...).
        unfinished: number of episodes that the step limit ended; their numbers are those at the
            limit.
    """

    episodes: int
    values: Mapping[str, np.ndarray]
    unfinished: int

    def estimate(self, name: str) -> Estimate:
        """The mean of a number over the episodes, with its interval."""
        return rate_of(self.values[name]) if name == "won" else mean_of(self.values[name])

    def histogram(self, name: str) -> dict[int, int]:
        """Number of episodes for each whole number that occurs."""
        numbers, counts = np.unique(self.values[name].astype(np.int64), return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def as_dict(self) -> dict[str, Any]:
        """The form of `eval --json`, with the numbers that the environment has."""
        found: dict[str, Any] = {"episodes": self.episodes}
        for name in ("return", "length", "score", "stage"):
            if name in self.values:
                found[name] = self.estimate(name).as_dict()
        if "stage" in self.values:
            by_stage = self.histogram("stage")
            found["stage"]["histogram"] = {str(stage): n for stage, n in by_stage.items()}
        if "won" in self.values:
            found["win_rate"] = self.estimate("won").as_dict()
        return found


def evaluate(
    policy: ActorCritic | Agent,
    environment: Environment,
    *,
    episodes: int,
    key: Key[Array, ""],
    num_envs: int = 1024,
    greedy: bool = False,
    max_steps: int = 20_000,
) -> Evaluation:
    """Plays episodes and returns their results.

    Each environment plays only its first episode, to the end: the episodes that end first would
    favour short ones. The games depend only on the key, not on `num_envs`.

    Args:
        policy: a network (its actions are drawn as in training) or a scripted player.
        environment: the environment to play in.
        episodes: number of episodes, at least 1.
        key: decides all games and all draws.
        num_envs: number of games at the same time; more games need more memory.
        greedy: a network takes its likeliest action instead.
        max_steps: step limit of an episode; see `Evaluation.unfinished`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a count is below 1, or policy and environment do not fit together.
    """
    together = evaluate_all(
        {"policy": policy},
        environment,
        episodes=episodes,
        key=key,
        num_envs=num_envs,
        greedy=greedy,
        max_steps=max_steps,
    )
    return together["policy"]


def evaluate_all(
    policies: Mapping[str, ActorCritic | Agent],
    environment: Environment,
    *,
    episodes: int,
    key: Key[Array, ""],
    num_envs: int = 1024,
    greedy: bool = False,
    max_steps: int = 20_000,
) -> dict[str, Evaluation]:
    """Evaluates several policies at once, on games with the same starts.

    The environment is compiled once for all of them.

    Args:
        policies: networks or scripted players by name.
        environment: the environment to play in.
        episodes: number of episodes for each policy, at least 1.
        key: decides all games and all draws.
        num_envs: number of games at the same time, for each policy.
        greedy: networks take their likeliest action.
        max_steps: step limit of an episode; see `Evaluation.unfinished`.

    Returns:
        The results by name.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a count is below 1, or policy and environment do not fit together.
    """
    for name, value in {"episodes": episodes, "num_envs": num_envs, "max_steps": max_steps}.items():
        whole(name, value)
    check_key(key)
    check_environment_and_players(environment, policies.values())
    players = tuple(
        PolicyAgent(policy, greedy=greedy) if isinstance(policy, ActorCritic) else policy
        for policy in policies.values()
    )
    num_envs = min(num_envs, episodes)
    parts = []
    for batch in range(math.ceil(episodes / num_envs)):
        keys = env_keys(key, num_envs, first=batch * num_envs)
        parts.append(jax.device_get(_first_episodes(players, environment, keys, max_steps)))
    # The last batch may play too many episodes. The last environments are dropped.
    totals, done = jax.tree.map(
        lambda *leaves: np.concatenate(leaves, axis=1)[:, :episodes], *parts
    )
    values = {"return": totals.total_reward, "length": totals.length, **totals.extra}
    return {
        name: Evaluation(
            episodes=episodes,
            values={each: numbers[place] for each, numbers in values.items()},
            unfinished=int(np.sum(~done[place])),
        )
        for place, name in enumerate(policies)
    }


class _Play(eqx.Module):
    """A batch of environments, each until its first episode ends."""

    state: PyTree[Array]
    timestep: Timestep
    carries: tuple[PyTree[Array], ...]
    totals: EpisodeStatistics
    done: Bool[Array, " all_envs"]
    step: Int32[Array, ""]


@eqx.filter_jit
def _first_episodes(
    players: tuple[Agent, ...],
    environment: Environment,
    keys: Key[Array, " num_envs"],
    max_steps: int,
) -> tuple[EpisodeStatistics, Bool[Array, "num_players num_envs"]]:
    """The totals of each environment's first episode, by player, and whether it ended."""
    num_envs = keys.shape[0]
    all_keys = jnp.tile(keys, len(players))
    state, timestep = environment.reset(jax.vmap(start_key)(all_keys))

    def act(play: _Play, keys: Key[Array, " all_envs"]) -> tuple[Array, tuple[PyTree, ...]]:
        """Each player acts in its own part of the batch."""
        chosen = []
        for place, (player, carry) in enumerate(zip(players, play.carries, strict=True)):
            own = slice(place * num_envs, (place + 1) * num_envs)
            observation = jax.tree.map(lambda leaf, own=own: leaf[own], play.timestep.observation)
            mask = play.timestep.mask[own]
            chosen.append(jax.vmap(_act(player))(observation, mask, carry, keys[own]))
        actions, carries = zip(*chosen, strict=True)
        return jnp.concatenate(actions), carries

    def unfinished(play: _Play) -> Bool[Array, ""]:
        return ~jnp.all(play.done) & (play.step < max_steps)

    def step(play: _Play) -> _Play:
        act_keys, play_keys = jax.vmap(step_keys, in_axes=(0, None))(all_keys, play.step)
        actions, carries = act(play, act_keys)
        state, timestep = environment.step(play.state, actions, play_keys)
        # The totals stop changing when the first episode ends.
        totals = jax.tree.map(
            lambda new, old: jnp.where(play.done, old, new), timestep.episode, play.totals
        )
        return _Play(
            state=state,
            timestep=timestep,
            carries=carries,
            totals=totals,
            done=play.done | timestep.done,
            step=play.step + 1,
        )

    play = _Play(
        state=state,
        timestep=timestep,
        carries=tuple(_carries(player, num_envs) for player in players),
        totals=timestep.episode,
        done=jnp.zeros(all_keys.shape[0], bool),
        step=jnp.zeros((), jnp.int32),
    )
    play = jax.lax.while_loop(unfinished, step, play)
    totals: EpisodeStatistics
    done: Bool[Array, "num_players num_envs"]
    totals, done = jax.tree.map(
        lambda leaf: leaf.reshape(len(players), num_envs), (play.totals, play.done)
    )
    return totals, done


def _act(player: Agent) -> Callable[..., tuple[Array, PyTree[Array]]]:
    """`player.act` with its key by position, for `jax.vmap`."""
    return lambda observation, mask, carry, key: player.act(observation, mask, carry, key=key)


def _carries(player: Agent, num_envs: int) -> PyTree[Array]:
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (num_envs, *leaf.shape)), player.initial_carry()
    )
