"""Records the games of a teacher."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from hackmatrix_rl.agent import RolloutCollector, start_collector
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.imitation._demonstrations import (
    Demonstrations,
    DemonstrationsHeader,
    DemonstrationsWriter,
)
from hackmatrix_rl.algorithms.imitation._labelling import Label, Labelling
from hackmatrix_rl.env import HackMatrix, env_keys, game_identity
from hackmatrix_rl.evaluation import Agent, check_player
from hackmatrix_rl.system import typed_path
from hackmatrix_rl.system.errors import share, whole

_STEPS = 32
"""Steps between checks whether all games have ended."""
_KEPT = ("observation", "mask", "action", "reward", "terminated", "truncated")


class _Uniform(ActorCritic):
    """A uniform policy as the student, which never acts: the teacher plays."""

    num_actions: int = eqx.field(static=True)

    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        return jnp.zeros(self.num_actions, jnp.float32), jnp.zeros((), jnp.float32), carry


def record_demonstrations(
    teacher: Agent,
    environment: HackMatrix,
    folder: Path | str,
    *,
    name: str,
    games: int,
    seed: int = 0,
    random_share: float = 0.02,
    num_envs: int = 256,
    max_steps: int = 20_000,
    on_progress: Callable[[int, int], None] = lambda done, all_: None,
) -> DemonstrationsHeader:
    """Plays games of a teacher and writes their positions; see `read_demonstrations`.

    `num_envs` games are played in parallel, with their positions in memory; the games do not depend
    on it. A game stops after about `max_steps` steps. `random_share` is the probability of a random
    legal action. `on_progress` is called with the number of games written, and the total.

    Raises:
        ConfigError: the folder is not empty.
        ValueError: an argument is out of range, or teacher and environment do not fit together.
    """
    check_player(teacher, environment)
    share("random_share", random_share)
    at_once = min(whole("num_envs", num_envs), whole("games", games))
    header = DemonstrationsHeader(
        game=game_identity(environment.observation),
        league=environment.config.league,
        teacher=name,
        seed=seed,
        games=games,
        random_share=random_share,
    )
    choice = Labelling(teacher, jnp.float32(1), random_share)
    with DemonstrationsWriter(Path(typed_path(folder)), header) as writer:
        for first in range(0, games, at_once):
            keys = env_keys(jax.random.key(seed), at_once, first=first)
            some = _games(choice, environment, keys, max_steps)
            for number in range(min(at_once, games - first)):
                writer.add(_of_one_game(some, number, first + number))
            on_progress(min(first + at_once, games), games)
    return writer.header


def _games(
    choice: Labelling, environment: HackMatrix, keys: Array, max_steps: int
) -> tuple[dict[str, Any], Label]:
    """The fields of a rollout on the host, and its labels, until the first games have ended."""
    student = _Uniform(environment.spec.num_actions)
    collect = eqx.filter_jit(RolloutCollector(_STEPS, precompute=False, choice=choice))
    collector_state = eqx.filter_jit(start_collector)(environment, student, keys)
    collector_state = replace(collector_state, choice_state=eqx.filter_jit(choice.start)(keys))
    ended = np.zeros(keys.shape[0], bool)
    parts: list[Any] = []
    while not ended.all() and len(parts) * _STEPS < max_steps:
        rollout, collector_state = collect(student, environment, collector_state)
        kept = {name: getattr(rollout, name) for name in _KEPT}
        parts.append(jax.device_get((kept, rollout.notes)))
        ended |= np.asarray(rollout.done).any(axis=0)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _of_one_game(some: tuple[dict[str, Any], Label], place: int, number: int) -> Demonstrations:
    """The positions of the first game of an environment."""
    played, labels = some
    done = (played["terminated"] | played["truncated"])[:, place]
    length = int(np.argmax(done)) + 1 if done.any() else len(done)
    here = (slice(length), place)
    return Demonstrations(
        observation=jax.tree.map(lambda leaf: leaf[here], played["observation"]),
        mask=played["mask"][here],
        action=np.asarray(labels.action)[here],
        played=played["action"][here],
        reward=played["reward"][here],
        done=done[:length],
        game=np.full(length, number, np.int32),
    )
