"""The metrics of PPO's updates."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import EpisodeSums, LossMetrics
from hackmatrix_rl.training import Dispatch, Metrics, StepReport


class UpdateMetrics(eqx.Module):
    """The report of an update, on the device. `Metrics` is its form on the host.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: of the gradient steps.
        explained_variance: explained variance of the rollout's values (see `Targets`).
        learning_rate: factor on the optimizer's step.
        scaling: metrics of the loss scaling, after the update.
        scheduled: numbers of the loss and the estimator that follow schedules, by name.
    """

    episodes: EpisodeSums
    learned: StepReport
    explained_variance: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    scaling: Mapping[str, Float32[Array, ""]]
    scheduled: Mapping[str, Float32[Array, ""]] = eqx.field(default_factory=dict)


def read_metrics(sums: UpdateMetrics, dispatch: Dispatch, *, batch: int) -> Metrics:
    """Computes the metrics of a dispatch from sums over its updates.

    Args:
        sums: reports of the updates, each leaf a scalar on the host summed over the dispatch.
        dispatch: number and position of these updates.
        batch: environment steps of one update.
    """
    episode, reward = sums.episodes.means()
    means = {
        "explained_variance": sums.explained_variance,
        "learning_rate": sums.learning_rate,
        **sums.scaling,
        **sums.scheduled,
    }
    learning: dict[str, int | float] = {
        **sums.learned.means(),
        **{name: float(total) / dispatch.count for name, total in means.items()},
        **_auxiliary(sums.learned.metrics),
        **sums.learned.counts(),
    }
    return Metrics(
        env_steps=dispatch.env_steps,
        updates=dispatch.updates,
        seconds=dispatch.seconds,
        steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
        episodes=int(sums.episodes.count),
        episode=episode,
        reward=reward,
        learning=learning,
    )


def _auxiliary(losses: LossMetrics) -> dict[str, float]:
    """The parts of the auxiliary loss, averaged over the minibatches that compute them."""
    auxiliary = losses.auxiliary
    if auxiliary is None or not float(auxiliary.due):
        return {}
    due = float(auxiliary.due)
    parts = {
        "aux_terms_loss": auxiliary.terms,
        "aux_end_loss": auxiliary.terminated,
        **({} if auxiliary.won is None else {"aux_win_loss": auxiliary.won}),
    }
    return {name: float(total) / due for name, total in parts.items()}
