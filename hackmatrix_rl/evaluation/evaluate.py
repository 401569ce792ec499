"""How well a policy plays: whole episodes, counted without favour."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent import ActorCritic
from hackmatrix_rl.env.environment import Environment, EpisodeStatistics, Timestep, env_keys
from hackmatrix_rl.evaluation.estimate import Estimate, mean_of, rate_of
from hackmatrix_rl.evaluation.player import Player, PolicyPlayer


@dataclass(frozen=True)
class Evaluation:
    """What came of some episodes.

    Attributes:
        episodes: how many.
        values: by name, one number for each episode: `return`, `length`, and the
            environment's own (`stage`, `score`, `won` ...).
        unfinished: episodes that the limit of steps ended; they count as they stood then.
    """

    episodes: int
    values: Mapping[str, np.ndarray]
    unfinished: int

    def estimate(self, name: str) -> Estimate:
        """The mean of a number over the episodes, with its interval."""
        return rate_of(self.values[name]) if name == "won" else mean_of(self.values[name])

    def histogram(self, name: str) -> dict[int, int]:
        """How many episodes had each of the (whole) numbers that occur."""
        numbers, counts = np.unique(self.values[name].astype(np.int64), return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def as_dict(self) -> dict[str, Any]:
        """As `eval --json` writes it, with what the environment tells of it."""
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
    policy: ActorCritic | Player,
    environment: Environment,
    *,
    episodes: int,
    key: Key[Array, ""],
    num_envs: int = 1024,
    greedy: bool = False,
    max_steps: int = 20_000,
) -> Evaluation:
    """Plays `episodes` episodes and says what came of them.

    One environment plays each episode, its first, to the end: taking whichever episodes end
    first would favour short ones. The games played depend on the key alone, not on
    `num_envs`.

    Args:
        policy: a network, whose actions are drawn as in training, or a scripted player.
        environment: to play in.
        episodes: how many to play; at least 1.
        key: decides all games and all draws.
        num_envs: how many are played side by side; more needs more memory.
        greedy: let a network take its likeliest action instead.
        max_steps: no episode is played further than that; see `Evaluation.unfinished`.

    Raises:
        ValueError: if there is nothing to play.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    player = PolicyPlayer(policy, greedy=greedy) if isinstance(policy, ActorCritic) else policy
    num_envs = min(num_envs, episodes)
    parts = []
    for batch in range(math.ceil(episodes / num_envs)):
        keys = env_keys(key, num_envs, first=batch * num_envs)
        parts.append(jax.device_get(_first_episodes(player, environment, keys, max_steps)))
    # The last batch may have played more than was asked for: the last environments are left
    # out, whatever their episodes came to.
    totals, done = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:episodes], *parts)
    return Evaluation(
        episodes=episodes,
        values={"return": totals.total_reward, "length": totals.length, **totals.extra},
        unfinished=int(np.sum(~done)),
    )


class _Play(eqx.Module):
    """A batch of environments, each until its first episode ends."""

    state: PyTree[Array]
    timestep: Timestep
    carry: PyTree[Array]
    totals: EpisodeStatistics
    done: Bool[Array, " num_envs"]
    step: Int32[Array, ""]


@eqx.filter_jit
def _first_episodes(
    player: Player, environment: Environment, keys: Key[Array, " num_envs"], max_steps: int
) -> tuple[EpisodeStatistics, Bool[Array, " num_envs"]]:
    """The totals of each environment's first episode, and whether it ended."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    state, timestep = environment.reset(fold(keys, 0))
    carry = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (keys.shape[0], *leaf.shape)), player.initial_carry()
    )

    def unfinished(play: _Play) -> Bool[Array, ""]:
        return ~jnp.all(play.done) & (play.step < max_steps)

    def step(play: _Play) -> _Play:
        pair = jax.vmap(jax.random.split)(fold(keys, play.step + 1))

        def act(
            observation: PyTree[Array], mask: Bool[Array, " num_actions"], carry: PyTree[Array], key: Key
        ) -> tuple[Int32[Array, ""], PyTree[Array]]:
            return player.act(observation, mask, carry, key=key)

        before = play.timestep
        actions, carry = jax.vmap(act)(before.observation, before.mask, play.carry, pair[:, 0])
        state, timestep = environment.step(play.state, actions, pair[:, 1])
        # Kept up to the step that ends the first episode, and no further.
        totals = jax.tree.map(
            lambda new, old: jnp.where(play.done, old, new), timestep.episode, play.totals
        )
        return _Play(
            state=state,
            timestep=timestep,
            carry=carry,
            totals=totals,
            done=play.done | timestep.done,
            step=play.step + 1,
        )

    play = _Play(
        state=state,
        timestep=timestep,
        carry=carry,
        totals=timestep.episode,
        done=jnp.zeros(keys.shape[0], bool),
        step=jnp.zeros((), jnp.int32),
    )
    play = jax.lax.while_loop(unfinished, step, play)
    return play.totals, play.done
