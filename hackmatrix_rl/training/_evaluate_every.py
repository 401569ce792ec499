"""Evaluation during training, on games of its own."""

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, check_is_environment
from hackmatrix_rl.errors import check_key, whole
from hackmatrix_rl.evaluation import Evaluation, evaluate
from hackmatrix_rl.training._metrics import Metrics
from hackmatrix_rl.training._trainer import Trainer

EVALUATION = 2**32 - 1
"""Folded into a key for evaluation; training folds in the numbers of updates and steps."""


class EvaluateEvery:
    """A callback that plays whole games with the policy, every so many updates.

    The games begin alike each time, so that the policy alone makes the difference. Their keys
    are apart from training's, which goes on bit for bit as it would without. Where a dispatch
    does several updates, the policy is evaluated after the dispatch that reaches the number.

    The numbers join the metrics: `eval/return`, and likewise the length and the environment's
    own numbers, each with its 95% interval as `eval/return_low` and `eval/return_high`;
    `eval/episodes` and `eval/unfinished` (see `Evaluation`). The first evaluation compiles.

    Args:
        updates: between two evaluations.
        episodes: games of each.
        environment: to play in; by default the trainer's.
        key: decides the games and all draws; by default always the same ones.
        num_envs: games side by side.
        greedy: let the network take its likeliest action.
        max_steps: no game is played further than that.

    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        updates: int,
        *,
        episodes: int = 100,
        environment: Environment | None = None,
        key: Key[Array, ""] | None = None,
        num_envs: int = 1024,
        greedy: bool = False,
        max_steps: int = 20_000,
    ) -> None:
        if environment is not None:
            check_is_environment(environment)
        if key is None:
            key = jax.random.fold_in(jax.random.key(0), EVALUATION)
        check_key(key)
        self._updates = whole("updates", updates)
        self._episodes = whole("episodes", episodes)
        self._environment = environment
        self._key = key
        self._num_envs = whole("num_envs", num_envs)
        self._greedy = greedy
        self._max_steps = whole("max_steps", max_steps)

    def __call__(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """The numbers of an evaluation, where one is due."""
        before = metrics.updates - metrics.dispatched
        if metrics.updates // self._updates == before // self._updates:
            return None
        # With several processes each plays the same games: none has to wait for another.
        found = evaluate(
            trainer.policy,
            trainer.environment if self._environment is None else self._environment,
            episodes=self._episodes,
            key=self._key,
            num_envs=self._num_envs,
            greedy=self._greedy,
            max_steps=self._max_steps,
        )
        return evaluation_metrics(found)


def evaluation_metrics(found: Evaluation) -> dict[str, float]:
    """The numbers of an evaluation by the names that metrics have them under."""
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
