"""Schedules the saves of a run, and repeats failed ones."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hackmatrix_rl.runs._trainings import MemberMeans
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, SaveResult
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import any_process
from hackmatrix_rl.training import Metrics, Trainer, every_policy

RETRY_SECONDS = 60.0
"""Seconds after a failure until the next save, if none is due before."""
_LAST_ATTEMPTS = 3


class CheckpointScheduler:
    """Decides when a run saves, and repeats failed saves.

    A failed save does not stop training: it is reported and repeated. `unsaved` is whether the
    newest save failed. `update` is the number of updates at the start or the resume. `saved` is
    called with the update of each complete checkpoint.
    """

    def __init__(
        self,
        config: RunConfig,
        writer: CheckpointWriter,
        update: int,
        *,
        note: Callable[[str], None],
        saved: Callable[[int], None] = lambda update: None,
        clock: Callable[[], float],
    ) -> None:
        self._config, self._writer = config, writer
        self._note, self._saved, self._clock = note, saved, clock
        self._last = clock()
        self._last_update = update
        self._saved_update = -1
        self._retry_at: float | None = None
        self._total, self._episodes = 0.0, 0  # returns and episodes since the last save
        self._writing = 0.0, 0  # those of the last save, until it fails
        self._members = MemberMeans()
        self.unsaved = False

    def watch(self, metrics: Metrics) -> None:
        """Records the metrics of a dispatch, and reports the saves since the last call."""
        mean = metrics.episode.get("return", math.nan)
        # A NaN would spoil the sum for later dispatches.
        if metrics.episodes and math.isfinite(mean):
            self._total += mean * metrics.episodes
            self._episodes += metrics.episodes
        self._members.look(metrics.updates, metrics.extra)
        self._report(self._writer.poll())

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Replays the rows that were logged before a resume."""
        self._members.recall(rows)

    def due(self, update: int) -> bool:
        """Whether to save now, after `update` updates."""
        if update == self._last_update:
            return False
        now = self._clock()
        if self._retry_at is not None and now >= self._retry_at:
            return True
        if self._config.save_interval is not None:
            return update % self._config.save_interval == 0
        if self._writer.busy:
            return False  # a save by the clock never waits for another
        minutes = self._config.save_interval_minutes
        return minutes is not None and now - self._last >= 60 * minutes

    def updates_until_due(self, update: int) -> int | None:
        """Updates before the next save, if saves are counted in updates."""
        interval = self._config.save_interval
        return None if interval is None else interval - update % interval

    def save(self, trainer: Trainer[Any]) -> None:
        state = trainer.state
        counters: dict[str, int | float] = {"env_steps": int(state.env_steps)}
        if self._episodes:
            counters["mean_return"] = self._total / self._episodes
        counters |= self._members.counters
        self._writing = self._total, self._episodes
        self._total, self._episodes = 0.0, 0
        self._last = self._clock()
        self._last_update = int(state.update)
        self._retry_at = None
        self._writer.save(
            int(state.update),
            policy=every_policy(trainer.algorithm, state),
            training=trainer.algorithm.checkpoint_state(state),
            counters=counters,
        )
        self._report(self._writer.poll())

    def begin(self, trainer: Trainer[Any]) -> None:
        """Saves the first state and waits for it: a run has a checkpoint from its start."""
        self.save(trainer)
        self.settle()

    def finish(self, trainer: Trainer[Any]) -> None:
        """Saves the last state, and waits until that succeeds or has failed repeatedly."""
        self.settle()
        update = int(trainer.state.update)
        for _ in range(_LAST_ATTEMPTS):
            if self._saved_update == update:
                return
            self.save(trainer)
            self.settle()

    def settle(self) -> None:
        """Waits for the current save. It has failed if any process failed to write."""
        self._report(self._writer.wait())
        self.unsaved = any_process(self.unsaved)
        if self.unsaved:
            self._saved_update = -1
            self._take_back()

    def _take_back(self) -> None:
        """Counts the episodes of a failed save in the mean return of the next one."""
        self._total += self._writing[0]
        self._episodes += self._writing[1]
        self._writing = 0.0, 0

    def _report(self, outcomes: list[SaveResult]) -> None:
        for outcome in outcomes:
            self.unsaved = outcome.error is not None
            if outcome.error is None:
                self._saved_update = outcome.update
                self._saved(outcome.update)
            else:
                self._take_back()
                self._retry_at = self._clock() + RETRY_SECONDS
                self._note(
                    f"COULD NOT SAVE update {outcome.update}: {_in_words(outcome.error)}. "
                    f"Training continues; next attempt in {RETRY_SECONDS:.0f} s at the latest."
                )


def _in_words(error: Exception) -> str:
    """An error in one line, because storage libraries write pages."""
    line = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return f"{type(error).__name__}: {line[:300]}".rstrip(": ")
