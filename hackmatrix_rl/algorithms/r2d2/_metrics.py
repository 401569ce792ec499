"""The metrics of Q-learning."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import EpisodeSums
from hackmatrix_rl.training import Dispatch, Metrics, StepReport


class QReport(eqx.Module):
    """The report of an update, on the device. `Metrics` is its form on the host.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: of the gradient steps.
        learning_rate: factor on the optimizer's step.
        scaling: metrics of the loss scaling, after the update.
    """

    episodes: EpisodeSums
    learned: StepReport
    learning_rate: Float32[Array, ""]
    scaling: Mapping[str, Float32[Array, ""]]


def read_report(sums: QReport, dispatch: Dispatch, *, batch: int) -> Metrics:
    """Computes the metrics of a dispatch from sums over its updates.

    Args:
        sums: reports of the updates, each leaf a scalar on the host summed over the dispatch.
        dispatch: number and position of these updates.
        batch: environment steps of one update.
    """
    episode, reward = sums.episodes.means()
    return Metrics(
        env_steps=dispatch.env_steps,
        updates=dispatch.updates,
        seconds=dispatch.seconds,
        steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
        episodes=int(sums.episodes.count),
        episode=episode,
        reward=reward,
        learning={
            **sums.learned.means(),
            **sums.learned.counts(),
            "learning_rate": float(sums.learning_rate) / dispatch.count,
            **{name: float(each) / dispatch.count for name, each in sums.scaling.items()},
        },
    )
