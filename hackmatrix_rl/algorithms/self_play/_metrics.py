"""The metrics of self-play."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32

from hackmatrix_rl.algorithms.self_play._games import Results
from hackmatrix_rl.training import Dispatch, Metrics, StepReport


class SelfPlayReport(eqx.Module):
    """The report of an update, on the device. `Metrics` is its form on the host.

    Attributes:
        results: of the games that ended.
        learned: of the gradient steps.
        learning_rate: factor on the optimizer's step.
        scaling: metrics of the loss scaling, after the update.
    """

    results: Results
    learned: StepReport
    learning_rate: Float32[Array, ""]
    scaling: Mapping[str, Float32[Array, ""]]


def read_report(sums: SelfPlayReport, dispatch: Dispatch, *, batch: int) -> Metrics:
    """Computes the metrics of a dispatch from sums over its updates.

    Args:
        sums: reports of the updates, each leaf a scalar on the host summed over the dispatch.
        dispatch: number and position of these updates.
        batch: moves of one update, over all games.
    """
    return Metrics(
        env_steps=dispatch.env_steps,
        updates=dispatch.updates,
        seconds=dispatch.seconds,
        steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
        episodes=int(sums.results.games),
        episode=_read_results(sums.results),
        learning={
            **sums.learned.means(),
            **sums.learned.counts(),
            "learning_rate": float(sums.learning_rate) / dispatch.count,
            **{name: float(each) / dispatch.count for name, each in sums.scaling.items()},
        },
        extra={"games": float(dispatch.progress)},
    )


def _read_results(results: Results) -> dict[str, float]:
    games = int(results.games)
    if not games:
        return {}
    return {
        "length": int(results.moves) / games,
        "first_wins": int(results.first_wins) / games,
        "draws": int(results.draws) / games,
    }
