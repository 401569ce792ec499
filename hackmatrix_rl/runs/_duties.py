"""What a run does beside training and saving."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, final

from hackmatrix_rl.config import RunConfig, SelfPlayConfig, TrainConfig
from hackmatrix_rl.runs._evaluating import (
    evaluation_key,
    evaluation_lines,
    evaluations_of,
    updates_until_evaluation,
)
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._league import LeagueFolder
from hackmatrix_rl.runs._replaying import ReplayWriter
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system import ticking
from hackmatrix_rl.training import Callback, Metrics, Trainer


class Duties(ABC):
    """What a run does between dispatches and at its end.

    Attributes:
        callbacks: called after each dispatch.
    """

    callbacks: Sequence[Callback]

    @abstractmethod
    def begin(self, trainer: Trainer[Any]) -> None:
        """Called when the state is there, new or restored."""

    @abstractmethod
    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """In how many updates a dispatch has to end, at the latest; `None`: no bound."""

    @abstractmethod
    def lines(self, metrics: Metrics) -> list[str]:
        """What the callbacks have found, for people to read."""

    @abstractmethod
    def finish(self, trainer: Trainer[Any]) -> None:
        """Called when the training has reached its end."""


@final
class HackMatrixDuties(Duties):
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

    def begin(self, trainer: Trainer[Any]) -> None:
        """Does nothing."""

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


@final
class SelfPlayDuties(Duties):
    """Keeps earlier networks of self-play for a league.

    Args:
        config: of the run.
        folder: of the run.
        sink: takes messages.
    """

    def __init__(self, config: SelfPlayConfig, folder: RunFolder, sink: Sink) -> None:
        self._league = LeagueFolder.of(config, folder)
        self._writes = folder.process == 0
        self._sink = sink
        self.callbacks = (self._keep,)

    def begin(self, trainer: Trainer[Any]) -> None:
        """Keeps the network that nothing has learned yet."""
        if trainer.algorithm.progress(trainer.state) == 0:
            self._write(0, trainer)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """Updates until the next network is kept."""
        done = trainer.algorithm.progress(trainer.state)
        mark = self._league.next_mark(done)
        return None if mark is None else trainer.algorithm.updates_until(trainer.state, mark)

    def lines(self, metrics: Metrics) -> list[str]:
        """None."""
        return []

    def finish(self, trainer: Trainer[Any]) -> None:
        """Does nothing: the league is played after the last save."""

    def _keep(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        # A dispatch ends where a mark may be passed, but one update may pass several.
        for mark in self._league.passed(metrics.episodes, int(metrics.extra["games"])):
            self._write(mark, trainer)

    def _write(self, mark: int, trainer: Trainer[Any]) -> None:
        if not self._league.marks:
            return
        policy = trainer.policy  # every process takes part in gathering it
        if not self._writes:
            return
        try:
            self._league.write(mark, policy)
        except OSError as error:  # a league is worth having, but no reason to stop
            self._sink.note(f"could not keep a network for the league: {error}")


def duties_of(config: RunConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink) -> Duties:
    """The duties of a run.

    Args:
        config: its settings.
        folder: its folder.
        trainer: its trainer.
        sink: takes messages.
    """
    if isinstance(config, TrainConfig):
        return HackMatrixDuties(config, folder, trainer, sink)
    assert isinstance(config, SelfPlayConfig), f"{type(config).__name__} has no duties"
    return SelfPlayDuties(config, folder, sink)
