"""Evaluation during a run (`--eval-interval`)."""

from typing import Any

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.runs._compose import run_keys
from hackmatrix_rl.runs._replaying import ReplayWriter
from hackmatrix_rl.training import (
    EVALUATION,
    Callback,
    EvaluateEvery,
    Metrics,
    Trainer,
)

_SHOWN = ("return", "stage", "score")


def evaluations_of(
    config: TrainConfig, replays: ReplayWriter | None = None
) -> tuple[Callback, ...]:
    """What a run calls after each dispatch: the evaluation, if it is asked for.

    Args:
        config: of the run.
        replays: keeps a game of each evaluation.
    """
    if not config.eval_interval:
        return ()
    key = evaluation_key(config)

    def keep(trainer: Trainer[Any], metrics: Metrics, found: Evaluation) -> None:
        if not config.replays:
            return
        # Every process takes part in gathering them, and process 0 alone writes.
        agent = trainer.agent
        if replays is not None:
            replays.keep(found, key, update=metrics.updates, agent=agent)

    return (
        EvaluateEvery(
            config.eval_interval,
            episodes=config.eval_interval_episodes,
            key=key,
            record=replays is not None,
            on_result=keep,
        ),
    )


def evaluation_key(config: TrainConfig) -> Key[Array, ""]:
    """The key of the games that a run is evaluated on."""
    return jax.random.fold_in(run_keys(config.seed)[1], EVALUATION)


def updates_until_evaluation(config: TrainConfig, update: int) -> int | None:
    """How many updates there are to the next evaluation; `None` if there is none.

    Dispatches end there, so that two runs are evaluated after the same updates.

    Args:
        config: of the run.
        update: the number that are done.
    """
    interval = config.eval_interval
    return interval - update % interval if interval else None


def evaluation_lines(metrics: Metrics) -> list[str]:
    """What an evaluation came to, for people to read; nothing where none was made."""
    found = metrics.extra
    if "eval/episodes" not in found:
        return []
    parts = [
        f"{name} {found[f'eval/{name}']:.3f} "
        f"[{found[f'eval/{name}_low']:.3f}, {found[f'eval/{name}_high']:.3f}]"
        for name in _SHOWN
        if f"eval/{name}" in found
    ]
    return [
        f"update {metrics.updates:,}: evaluated on {int(found['eval/episodes']):,} games: "
        + ", ".join(parts)
    ]
