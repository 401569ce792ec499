"""Plays a teacher's games and writes them down."""

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
"""Steps between two looks at whether all games have ended."""


_KEPT = ("observation", "mask", "action", "reward", "terminated", "truncated")


class _Nobody(ActorCritic):
    """A student that knows nothing: only the teacher plays."""

    num_actions: int = eqx.field(static=True)

    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """The same logit for each action."""
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
    """Writes the positions of whole games of a teacher; see `read_demonstrations`.

    The games do not depend on `num_envs`, the number of games at the same time, whose positions are
    in memory at once. A game that is longer than `max_steps` is left out from there on.
    `random_share` is the share of the steps with a random legal action. `on_progress` is called
    with the number of games written, and the total.

    Raises:
        ConfigError: the folder holds something already.
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
    """The fields of a rollout of whole games, on the host, and its labels; more games follow."""
    nobody = _Nobody(environment.spec.num_actions)
    play_on = eqx.filter_jit(RolloutCollector(_STEPS, precompute=False, choice=choice))
    collector_state = eqx.filter_jit(start_collector)(environment, nobody, keys)
    collector_state = replace(collector_state, choice_state=eqx.filter_jit(choice.start)(keys))
    ended = np.zeros(keys.shape[0], bool)
    parts: list[Any] = []
    while not ended.all() and len(parts) * _STEPS < max_steps:
        rollout, collector_state = play_on(nobody, environment, collector_state)
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
