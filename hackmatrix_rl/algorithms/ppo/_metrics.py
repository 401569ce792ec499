"""The metrics of PPO's updates."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32, Int32

from hackmatrix_rl.agent import EpisodeSums, LossMetrics
from hackmatrix_rl.training import Dispatch, Metrics


class Learned(eqx.Module):
    """The report of learning from minibatches.

    Attributes:
        losses: metrics of the loss; means over the minibatches with a finite gradient, to the
            first one that exceeds `target_kl`.
        gradient_norm: norm before clipping; a mean over the same minibatches.
        steps: number of gradient steps.
        skipped: number of steps skipped because the gradient was not finite.
    """

    losses: LossMetrics
    gradient_norm: Float32[Array, ""]
    steps: Int32[Array, ""]
    skipped: Int32[Array, ""]


class UpdateMetrics(eqx.Module):
    """The report of an update, on the device. `Metrics` is its form on the host.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: the report of the minibatches.
        explained_variance: explained variance of the rollout's values (see `Targets`).
        learning_rate: factor on the optimizer's step.
        scaling: metrics of the loss scaling, after the update.
        scheduled: numbers of the loss and the estimator that follow schedules, by name.
    """

    episodes: EpisodeSums
    learned: Learned
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
    losses = sums.learned.losses
    means = {
        "policy_loss": losses.policy_loss,
        "value_loss": losses.value_loss,
        "entropy": losses.entropy,
        "approx_kl": losses.approx_kl,
        **({} if losses.kl is None else {"kl": losses.kl}),
        "clip_fraction": losses.clip_fraction,
        **losses.extra,
        "gradient_norm": sums.learned.gradient_norm,
        "explained_variance": sums.explained_variance,
        "learning_rate": sums.learning_rate,
        **sums.scaling,
        **sums.scheduled,
    }
    learning: dict[str, int | float] = {
        name: float(total) / dispatch.count for name, total in means.items()
    }
    learning |= _auxiliary(losses)
    learning["gradient_steps"] = int(sums.learned.steps)
    learning["skipped"] = int(sums.learned.skipped)
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
