"""The report of an update that plays episodes and takes gradient steps."""

from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import EpisodeSums
from hackmatrix_rl.training._algorithm import Dispatch
from hackmatrix_rl.training._gradient_step import StepReport
from hackmatrix_rl.training._metrics import Metrics


class UpdateReport(eqx.Module):
    """The report of an update, on the device. Reports can be added.

    Attributes:
        episodes: sums over the episodes that ended.
        learned: of the gradient steps.
        scheduled: numbers that follow schedules, by name.
        scaling: metrics of the loss scaling, after the update.
    """

    episodes: EpisodeSums
    learned: StepReport
    scheduled: Mapping[str, Float32[Array, ""]]
    scaling: Mapping[str, Float32[Array, ""]]

    def metrics(self, dispatch: Dispatch, *, batch: int) -> Metrics:
        """The metrics of a dispatch, on the host, of a report that is summed over its updates.

        Args:
            dispatch: number and position of these updates.
            batch: environment steps of one update.
        """
        episode, reward = self.episodes.means()
        means = {**self.scheduled, **self.scaling}
        return Metrics(
            env_steps=dispatch.env_steps,
            updates=dispatch.updates,
            seconds=dispatch.seconds,
            steps_per_second=dispatch.count * batch / max(dispatch.seconds, 1e-9),
            episodes=int(self.episodes.count),
            episode=episode,
            reward=reward,
            learning={
                **self.learned.means(),
                **self.learned.counts(),
                **{name: float(total) / dispatch.count for name, total in means.items()},
            },
        )
