"""The metrics of Q-learning."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32, Int32

from hackmatrix_rl.agent import EpisodeSums
from hackmatrix_rl.algorithms.r2d2._loss import Losses
from hackmatrix_rl.training import Dispatch, Metrics


class Learned(eqx.Module):
    """The report of the gradient steps of an update.

    Attributes:
        losses: sums over the sequences learned from.
        gradient_norm: sum of the norms before clipping, over the steps that were taken.
        steps: number of gradient steps.
        skipped: number of steps skipped because the gradient was not finite.
    """

    losses: Losses
    gradient_norm: Float32[Array, "*axes"]
    steps: Int32[Array, "*axes"]
    skipped: Int32[Array, "*axes"]


class QReport(eqx.Module):
    """The report of an update, on the device. `Metrics` is its form on the host.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: of the gradient steps.
        learning_rate: factor on the optimizer's step.
        scaling: metrics of the loss scaling, after the update.
    """

    episodes: EpisodeSums
    learned: Learned
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
            **_read_learned(sums.learned),
            "learning_rate": float(sums.learning_rate) / dispatch.count,
            **{name: float(each) / dispatch.count for name, each in sums.scaling.items()},
        },
    )


def _read_learned(learned: Learned) -> dict[str, int | float]:
    losses = learned.losses
    means: dict[str, int | float] = {}
    if int(learned.steps):
        count = float(losses.count)
        names = ("q_loss", "td_error", "q_value", "q_target")
        means = {name: float(getattr(losses, name)) / count for name in names}
        means["gradient_norm"] = float(learned.gradient_norm) / int(learned.steps)
    return {**means, "gradient_steps": int(learned.steps), "skipped": int(learned.skipped)}
