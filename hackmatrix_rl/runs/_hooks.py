"""Hooks: what a run does beside training and saving."""

from collections.abc import Sequence
from functools import partial
from typing import Any, final

from hackmatrix_rl.config import RunConfig, TrainConfig
from hackmatrix_rl.runs._evaluating import (
    evaluation_key,
    evaluation_lines,
    evaluations_of,
    updates_until_evaluation,
)
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._replaying import ReplayWriter
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system import ticking
from hackmatrix_rl.training import Callback, Metrics, Trainer


class Hook:
    """What a run does between dispatches and at its end; by default nothing.

    Attributes:
        callbacks: called after each dispatch.
    """

    callbacks: Sequence[Callback] = ()

    def begin(self, trainer: Trainer[Any]) -> None:
        """Called when the state is there, new or restored."""

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates after which a dispatch must end, at the latest; `None`: no bound."""
        return None

    def lines(self, metrics: Metrics) -> list[str]:
        """What the callbacks have found, for people to read."""
        return []

    def finish(self, trainer: Trainer[Any]) -> None:
        """Called when the training has reached its end."""


@final
class EvaluateAndReplay(Hook):
    """Evaluates a training on HackMatrix now and then, and keeps replays.

    Args:
        config: of the run.
        folder: of the run.
        trainer: of the run.
        sink: takes messages.
    """

    def __init__(
        self, config: TrainConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink
    ) -> None:
        self._config = config
        self._sink = sink
        self._replays = ReplayWriter.of(
            folder, trainer.environment, most=config.replays, note=sink.note, show=sink.show
        )
        self.callbacks = evaluations_of(config, self._replays)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """Updates until the next evaluation."""
        return updates_until_evaluation(self._config, int(trainer.state.update))

    def lines(self, metrics: Metrics) -> list[str]:
        """The result of an evaluation."""
        return evaluation_lines(metrics)

    def finish(self, trainer: Trainer[Any]) -> None:
        """Plays a game for Weights & Biases, where the run has shown none.

        Without the service, the summary that follows keeps one.
        """
        config = self._config
        if not (config.wandb and config.eval_episodes and config.replays) or config.eval_interval:
            return
        # Every process takes part in gathering them, and process 0 alone plays.
        agent = trainer.agent
        if self._replays is not None:
            with ticking(partial(self._sink.working, "playing")):
                update = int(trainer.state.update)
                self._replays.play(agent, evaluation_key(config), update=update)


def hooks_of(config: RunConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink) -> list[Hook]:
    """The hooks of a run: those of every training on HackMatrix, and those of its algorithm.

    Args:
        config: its settings.
        folder: its folder.
        trainer: its trainer.
        sink: takes messages.
    """
    found: list[Hook] = config.hooks(folder, sink)
    if isinstance(config, TrainConfig):
        found.append(EvaluateAndReplay(config, folder, trainer, sink))
    return found
