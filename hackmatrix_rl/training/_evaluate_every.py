"""Evaluation during training, on separate games."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, check_is_environment
from hackmatrix_rl.errors import check_key, whole
from hackmatrix_rl.evaluation import Evaluation, OnProgress, evaluate
from hackmatrix_rl.training._hooks import Hook
from hackmatrix_rl.training._report import Metrics
from hackmatrix_rl.training._trainer import Trainer

EVALUATION = 2**32 - 1
"""The number folded into a key for evaluation. Training folds in numbers of updates and steps."""


class EvaluateEvery(Hook):
    """A hook that evaluates the policy on whole games every N updates.

    Each evaluation plays games with the same beginning, so results differ only by the policy. It
    uses its own random keys, so the training has the same bits with it and without it. A dispatch
    ends at each multiple of N.

    These numbers join the metrics: `eval/return`, `eval/length` and the environment's own
    numbers. Each has a 95% interval, such as `eval/return_low` and `eval/return_high`. Two more
    are `eval/episodes` and `eval/unfinished` (see `Evaluation`). The first evaluation compiles.

    Args:
        updates: number of updates between two evaluations (N).
        episodes: number of games in each evaluation.
        environment: the environment to play in; by default the trainer's.
        key: source of all randomness; by default a fixed key.
        num_envs: number of games at the same time.
        greedy: whether a network takes its likeliest action instead of drawing one; `None`: as its
            algorithm means it to be played.
        max_steps: step limit of a game.
        record: whether the results hold the actions.
        on_result: told each evaluation's results, with the trainer and the metrics of the dispatch.
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
        if environment is not None:
            check_is_environment(environment)
        if key is None:
            key = jax.random.fold_in(jax.random.key(0), EVALUATION)
        check_key(key)
        self._updates = whole("updates", updates)
        self._given: dict[str, Any] = {
            "episodes": whole("episodes", episodes),
            "key": key,
            "num_envs": whole("num_envs", num_envs),
            "max_steps": whole("max_steps", max_steps),
            "record": record,
            "on_progress": on_progress,
        }
        self._environment = environment
        self._greedy = greedy
        self._on_result = on_result

    def updates_until_due(self, trainer: Trainer[Any]) -> int:
        return self._updates - int(trainer.state.update) % self._updates

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """Evaluates and returns the numbers if an evaluation is due, else returns `None`."""
        if metrics.updates % self._updates:
            return None
        # Several processes all play the same games, so none has to wait for another.
        found = evaluate(
            trainer.policy,
            trainer.environment if self._environment is None else self._environment,
            greedy=trainer.algorithm.greedy if self._greedy is None else self._greedy,
            **self._given,
        )
        if self._on_result is not None:
            self._on_result(trainer, metrics, found)
        return evaluation_metrics(found)


def evaluation_metrics(found: Evaluation) -> dict[str, float]:
    """The numbers of an evaluation, by their names in the metrics."""
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
