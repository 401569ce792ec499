"""Evaluates policies on full episodes, without a bias towards short ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Key, PyTree

from hackmatrix_rl.agent import Distribution, RolloutCollector, start_collector
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.env import Environment, EpisodeStatistics, closing_games, env_keys
from hackmatrix_rl.evaluation._contract import check_environment_and_players
from hackmatrix_rl.evaluation._episodes import play_episodes, start_carries
from hackmatrix_rl.evaluation._estimate import Estimate, mean_of, rate_of
from hackmatrix_rl.evaluation._player import Agent, PolicyAgent
from hackmatrix_rl.system.errors import check_jax, check_key, whole

OnProgress = Callable[[int, int], None]
"""Callback `(finished, total)`: the numbers of episodes."""


@dataclass(frozen=True)
class Evaluation:
    """The results of some episodes."""

    episodes: int  #: Number of episodes.
    #: By name, one number for each episode: `return`, `length`, and the environment's statistics
    #: (`stage`, `score`, `won` ...).
    values: Mapping[str, np.ndarray]
    #: Number of episodes that a step limit ended, the evaluation's or the environment's; their
    #: values are those at the limit.
    unfinished: int
    #: The actions of each episode; `None` if they were not recorded.
    actions: tuple[np.ndarray, ...] | None = None

    def estimate(self, name: str) -> Estimate:
        """The mean of a value over the episodes, with its interval."""
        return rate_of(self.values[name]) if name == "won" else mean_of(self.values[name])

    def histogram(self, name: str) -> dict[int, int]:
        """The number of episodes for each integer value that occurs."""
        numbers, counts = np.unique(self.values[name].astype(np.int64), return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def as_dict(self) -> dict[str, Any]:
        """The form of `eval --json`, with the values that the environment has."""
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
    record: bool = False,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Plays episodes and returns their results.

    Each environment plays only its first episode, to the end: taking the episodes that end first
    would favour short ones. The games depend only on the key, not on `num_envs`. This needs keys of
    `threefry2x32`, JAX's default: for keys of `rbg` or `unsafe_rbg`, `jax.vmap` draws for a full
    batch from its first key.

    Args:
        policy: a network (its actions are sampled as in training) or another player.
        environment: the environment to play in.
        episodes: number of episodes, at least 1.
        key: source of all randomness.
        num_envs: number of parallel games; more games need more memory.
        greedy: a network takes its likeliest action instead (`PolicyAgent.likeliest`).
        max_steps: step limit of an episode; see `Evaluation.unfinished`.
        record: whether to keep the actions; see `Evaluation.actions`. A game then needs some
            bytes of memory for each action.
        on_progress: callback `(finished, total)`, over the episodes of all policies: first with 0
            when everything is compiled, then about every second. An exception in it ends the
            evaluation.

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
        record=record,
        on_progress=on_progress,
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
    record: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, Evaluation]:
    """Evaluates several policies in one program, on games with the same starts.

    The environment is compiled once for all of them. Policies and results have names; `episodes`
    and `num_envs` are per policy. The other arguments and the errors are as in `evaluate`.
    """
    for name, value in {"episodes": episodes, "num_envs": num_envs, "max_steps": max_steps}.items():
        whole(name, value)
    check_jax()
    check_key(key)
    check_environment_and_players(environment, policies.values())
    players = tuple(_player(each, environment, greedy) for each in policies.values())
    num_envs = min(num_envs, episodes)
    parts: list[tuple[EpisodeStatistics, np.ndarray]] = []
    recorded: list[list[np.ndarray]] = [[] for _ in players]
    for first in range(0, episodes, num_envs):
        # The last batch may play too many episodes, whose results are dropped.
        needed = min(num_envs, episodes - first)

        def report(done: np.ndarray, first: int = first, needed: int = needed) -> None:
            if on_progress is not None:
                finished = len(players) * first + int(done[:, :needed].sum())
                on_progress(finished, len(players) * episodes)

        totals, terminated, actions = play_episodes(
            players,
            environment,
            env_keys(key, num_envs, first=first),
            max_steps=max_steps,
            record=record,
            on_progress=report,
        )
        parts.append(jax.tree.map(lambda leaf, n=needed: leaf[:, :n], (totals, terminated)))
        if actions is not None:
            for place, kept in enumerate(recorded):
                lengths = totals.length[place, :needed].tolist()
                kept += [actions[:n, place, game].copy() for game, n in enumerate(lengths)]
    totals, terminated = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
    values = {"return": totals.total_reward, "length": totals.length, **totals.extra}
    return {
        name: Evaluation(
            episodes=episodes,
            values={each: numbers[place] for each, numbers in values.items()},
            unfinished=int(np.sum(~terminated[place])),
            actions=tuple(recorded[place]) if record else None,
        )
        for place, name in enumerate(policies)
    }


def _player(policy: ActorCritic | Agent, environment: Environment, greedy: bool) -> Agent:
    """The player of a policy; `greedy` has an effect on networks alone."""
    player = PolicyAgent(policy) if isinstance(policy, ActorCritic) else policy
    return player.likeliest(environment) if greedy and isinstance(player, PolicyAgent) else player


def policy_divergence(
    policy: ActorCritic,
    other: ActorCritic,
    environment: Environment,
    *,
    key: Key[Array, ""],
    num_envs: int = 128,
    num_steps: int = 64,
) -> float:
    """Mean KL(policy || other) in nats over the observations of `policy`, at least 0.

    `policy` plays `num_steps` in each environment, from the start of new episodes. Then both
    policies compute their probabilities on its observations, in float32 and under the same masks.
    """
    collector_state = start_collector(environment, policy, env_keys(key, num_envs))
    collect = RolloutCollector(num_steps)
    with closing_games(collector_state):
        return float(_mean_divergence(policy, other, environment, collector_state, collect))


@eqx.filter_jit
def _mean_divergence(
    policy: ActorCritic,
    other: ActorCritic,
    environment: Environment,
    collector_state: PyTree[Array],
    collect: RolloutCollector,
) -> Float32[Array, ""]:
    rollout, _ = collect(policy, environment, collector_state)

    def distribution(each: ActorCritic) -> Distribution:
        first = start_carries(each, rollout.done.shape[1])
        logits, _ = evaluator_of(each).unroll(rollout.observation, first, rollout.done)
        return each.distribution(logits, rollout.mask)

    return jnp.mean(distribution(policy).divergence_from(distribution(other)))
