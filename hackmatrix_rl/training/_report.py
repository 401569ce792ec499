"""The report of an update on the device, and its metrics on the host."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float32, Int32, PyTree

from hackmatrix_rl.training._algorithm import Dispatch
from hackmatrix_rl.training._metrics import Metrics


class StepReport(eqx.Module):
    """What happened in gradient steps. Reports can be added.

    Attributes:
        metrics: the metrics of the loss, summed over the measured steps.
        gradient_norm: the norm before clipping, summed over the same steps.
        measured: number of these steps: their gradient was finite, and they were not left out.
        steps: number of steps that were applied.
        skipped: number of steps skipped because the gradient was not finite.
    """

    metrics: PyTree[Array]
    gradient_norm: Float32[Array, "*axes"]
    measured: Int32[Array, "*axes"]
    steps: Int32[Array, "*axes"]
    skipped: Int32[Array, "*axes"]

    def means(self) -> dict[str, float]:
        """The means over the measured steps by name, on the host; empty without such a step."""
        count = int(self.measured)
        if not count:
            return {}
        named: dict[str, Any] = {}
        found = self.metrics if isinstance(self.metrics, dict) else vars(self.metrics)
        for name, value in found.items():
            named |= value if isinstance(value, dict) else {name: value}
        named["gradient_norm"] = self.gradient_norm
        return {
            name: float(total) / count
            for name, total in named.items()
            if total is not None and not isinstance(total, eqx.Module)
        }

    def counts(self) -> dict[str, int]:
        """The numbers of steps by name, on the host."""
        return {"gradient_steps": int(self.steps), "skipped": int(self.skipped)}


class UpdateReport(eqx.Module):
    """The report of an update, on the device. Reports can be added.

    Attributes:
        episodes: sums over the episodes that ended; with their `count`, and `means` of it as those
            of `EpisodeSums`.
        steps: of the gradient steps.
        means: numbers whose mean over the updates is a metric, by name.
    """

    episodes: Any
    steps: StepReport
    means: Mapping[str, Float32[Array, ""]]

    def metrics(self, dispatch: Dispatch, *, batch: int) -> Metrics:
        """The metrics of a dispatch, on the host, of a report that is summed over its updates.

        Args:
            dispatch: number and position of the updates.
            batch: environment steps of one update.
        """
        episode, reward = self.episodes.means()
        return Metrics(
            env_steps=dispatch.env_steps,
            updates=dispatch.updates,
            seconds=dispatch.seconds,
            steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
            episodes=int(self.episodes.count),
            episode=episode,
            reward=reward,
            learning={
                **self.steps.means(),
                **{name: float(total) / dispatch.count for name, total in self.means.items()},
                **self.steps.counts(),
            },
        )
