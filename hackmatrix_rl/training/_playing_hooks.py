"""Hooks that play games between dispatches: evaluation and GIFs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, HackMatrix, check_is_environment
from hackmatrix_rl.evaluation import Evaluation, OnProgress, evaluate, play_steps
from hackmatrix_rl.system import is_process_zero, typed_path
from hackmatrix_rl.system.errors import check_key, number, whole
from hackmatrix_rl.training._hooks import Hook
from hackmatrix_rl.training._report import Metrics
from hackmatrix_rl.training._trainer import Trainer

EVALUATION = 2**32 - 1
"""Folded into a key for evaluation; no update and no step has this number."""


class _PlaysEvery(Hook):
    """Plays games every N updates, with separate random keys. A dispatch ends at each multiple."""

    def __init__(
        self, updates: int, environment: Environment | None, key: Key[Array, ""] | None
    ) -> None:
        if environment is not None:
            check_is_environment(environment)
        if key is None:
            key = jax.random.fold_in(jax.random.key(0), EVALUATION)
        check_key(key)
        self._updates = whole("updates", updates)
        self._environment = environment
        self._key = key

    def updates_until_due(self, trainer: Trainer[Any]) -> int:
        """Updates until the next games."""
        return self._updates - int(trainer.state.update) % self._updates

    def _place(self, trainer: Trainer[Any]) -> Environment:
        return trainer.environment if self._environment is None else self._environment


class EvaluateEvery(_PlaysEvery):
    """A hook that evaluates the policy on complete games every N updates.

    Each evaluation uses the same keys, so results differ only by the policy. They are separate from
    the keys of the training, so the training has the same bits with and without the hook. A
    dispatch ends at each multiple of N.

    It adds the metrics `eval/return`, `eval/length` and the environment's own. Each has a 95%
    interval, such as `eval/return_low` and `eval/return_high`. It also adds `eval/episodes` and
    `eval/unfinished` (see `Evaluation`). The first evaluation compiles.

    Args:
        updates: number of updates between two evaluations (N).
        episodes: number of games per evaluation.
        environment: the environment to play in; by default the trainer's.
        key: source of all randomness; by default a fixed key.
        num_envs: number of parallel games.
        greedy: whether the network takes its most likely action instead of a sample; `None`:
            `Algorithm.greedy`.
        max_steps: step limit of a game.
        record: whether the results include the actions.
        on_result: called as `on_result(trainer, metrics, evaluation)` after each evaluation.
        on_progress: see `evaluate`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        updates: int,
        *,
        episodes: int = 100,
        environment: Environment | None = None,
        key: Key[Array, ""] | None = None,
        num_envs: int = 1024,
        greedy: bool | None = None,
        max_steps: int = 20_000,
        record: bool = False,
        on_result: Callable[[Trainer[Any], Metrics, Evaluation], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__(updates, environment, key)
        self._given: dict[str, Any] = {
            "episodes": whole("episodes", episodes),
            "key": self._key,
            "num_envs": whole("num_envs", num_envs),
            "max_steps": whole("max_steps", max_steps),
            "record": record,
            "on_progress": on_progress,
        }
        self._greedy = greedy
        self._on_result = on_result

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """Evaluates and returns the numbers if an evaluation is due, else returns `None`."""
        if metrics.updates % self._updates:
            return None
        # Every process plays the same games, so none waits for another.
        found = evaluate(
            trainer.policy,
            self._place(trainer),
            greedy=trainer.algorithm.greedy if self._greedy is None else self._greedy,
            **self._given,
        )
        if self._on_result is not None:
            self._on_result(trainer, metrics, found)
        return evaluation_metrics(found)


def evaluation_metrics(found: Evaluation) -> dict[str, float]:
    """The metrics of an evaluation, by name."""
    numbers: dict[str, float] = {
        "eval/episodes": found.episodes,
        "eval/unfinished": found.unfinished,
    }
    for name in found.values:
        estimate = found.estimate(name)
        numbers[f"eval/{name}"] = estimate.mean
        numbers[f"eval/{name}_low"] = estimate.low
        numbers[f"eval/{name}_high"] = estimate.high
    return numbers


class SaveGifEvery(_PlaysEvery):
    """A hook that saves a game as a GIF, such as `update-00000010.gif`, every N updates.

    Frames are from `Environment.draw` or `Environment.render`, else they show the observations.
    Each game uses the same key, separate from the training's keys, so the training has the same
    bits with and without the hook. A dispatch ends at each multiple of N.

    Args:
        updates: number of updates between two games (N).
        folder: the folder of the files, created if it is missing.
        environment: the environment to play in; by default the trainer's.
        key: source of all randomness; by default a fixed key.
        max_steps: step limit of a game.
        seconds_per_frame: duration of a frame in seconds.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range.
        ConfigError: at the first game, if the environment draws something that cannot be shown.
    """

    def __init__(
        self,
        updates: int,
        folder: str | Path = "gifs",
        *,
        environment: Environment | None = None,
        key: Key[Array, ""] | None = None,
        max_steps: int = 500,
        seconds_per_frame: float = 0.1,
    ) -> None:
        super().__init__(updates, environment, key)
        self._folder = Path(typed_path(folder, lasting=True))
        self._max_steps = whole("max_steps", max_steps)
        self._seconds = number("seconds_per_frame", seconds_per_frame)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Plays and saves a game if one is due."""
        if metrics.updates % self._updates:
            return
        # A collective: every process gathers the network, and process 0 plays.
        agent = trainer.agent
        if not is_process_zero():
            return
        # Imported here, because other trainings do not need `view`.
        from hackmatrix_rl.view import draw, frames_of, save_gif
        from hackmatrix_rl.view.replays import recorded

        environment, most = self._place(trainer), self._max_steps
        if isinstance(environment, HackMatrix):
            steps = play_steps(agent, environment, self._key, max_steps=most)
            drawings = [draw(frames_of(step.state.games)[0]) for step in steps]
        else:
            drawings = recorded(agent, environment, self._key, max_steps=most).drawings()
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"update-{metrics.updates:08}.gif"
        save_gif(drawings, file, seconds_per_frame=self._seconds)
