"""A worker of a sweep: it trains trials until none is left."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl.runs import LastPart, RunFolder, launch
from hackmatrix_rl.runs.config import code_of
from hackmatrix_rl.runs.sinks import Length, read_json_lines
from hackmatrix_rl.runs.sweeps._study import Sweep, Trial
from hackmatrix_rl.system import ExitCode, status_of
from hackmatrix_rl.system.errors import ConfigError, first_line
from hackmatrix_rl.training import Hook, Metrics, StopTraining

MOST_FAILURES = 5
"""Consecutive trials that fail before a worker ends."""


@dataclass(frozen=True)
class Trained:
    """How a trial ended: its state, and its value or the reason for having none."""

    trial: Trial
    state: str
    value: float | None = None
    why: str = ""


@dataclass(eq=False)
class _Watch(Hook):
    """Reports a training's metric to Optuna, and ends the training if Optuna prunes it."""

    trial: Trial
    metric: str
    length: Length
    progress: Callable[[int, int], None]
    rows: Path
    note: Callable[[str], object] = print
    pruned_at: int | None = None
    _last: LastPart = field(default_factory=LastPart)
    _reported: int = 0

    def on_start(self, trainer: Any) -> None:
        """Replays the rows that were logged before a resume."""
        self._reported = self.trial.reported
        if self.rows.exists():
            for row in read_json_lines(self.rows):
                self._look(row)

    def after_dispatch(self, trainer: Any, metrics: Metrics) -> None:
        """Reports the metric of a dispatch."""
        row = metrics.as_dict()
        self._look(row)
        self.progress(int(row[self.length.counts]), self.length.goal)
        percent, value = int(100 * self.length.done(row)), self.value
        if value is not None and self._reported < percent < 100:
            try:
                ends = self.trial.prune(value, percent)
            except OSError as error:
                if status_of(error) is not ExitCode.UNSAVED:
                    raise
                self.note(f"could not report {self.metric} at {percent}%: {error}")
                return
            self._reported = percent
            if ends:
                self.pruned_at = percent
                raise StopTraining

    @property
    def value(self) -> float | None:
        """The mean over the last tenth of the training so far; `None` without a number."""
        return self._last.mean

    def _look(self, row: Any) -> None:
        found, at = row.get(self.metric), row.get(self.length.counts)
        if isinstance(found, int | float) and isinstance(at, int | float) and math.isfinite(found):
            self._last.add(at, found)


def work(
    sweep: Sweep,
    *,
    begins: Callable[[Trial, bool], None],
    ends: Callable[[Trained], None],
    progress: Callable[[int, int], None],
    note: Callable[[str], object] = print,
) -> ExitCode:
    """Trains trials until none is left, or until a signal stops it.

    `begins` is called with each trial and whether it resumes, `ends` with each ended trial,
    `progress` with the progress of a training and its goal, and `note` with messages about failed
    reports. Settings that are incompatible, or do not fit into memory, fail only their trial.

    Raises:
        ConfigError: many consecutive trials failed, so their settings are not the cause; or the
            disk is full, and the trial is left for any worker to resume.
        OSError: the disk is full, and Optuna could not write to it.

    Returns:
        How it ended. After anything but `DONE`, a trial is left for any worker to resume.
    """
    failures = 0
    while (trial := sweep.take()) is not None:
        with trial.lock:  # until Optuna has the result: a trial without a lock counts as abandoned
            try:
                status, ended = _train(sweep, trial, begins, progress, note)
            except (ConfigError, jax.errors.JaxRuntimeError) as error:
                if status_of(error) is ExitCode.UNSAVED:  # its settings are not the cause
                    raise
                why = str(error) if isinstance(error, ConfigError) else first_line(error)
                status, ended = ExitCode.DONE, Trained(trial, "FAIL", why=why)
            except Exception as error:
                if status_of(error) is not ExitCode.UNSAVED:
                    sweep.end(trial, "FAIL", why=first_line(error))  # or every worker would retry
                raise
            if ended is None:
                return status
            sweep.end(trial, ended.state, ended.value, ended.why)
            if ended.state == "FAIL":
                trial.lock.withdraw()
        ends(ended)
        failures = failures + 1 if ended.state == "FAIL" else 0
        if failures == MOST_FAILURES:
            raise ConfigError(f"{failures} trials failed one after another. The last: {ended.why}")
    sweep.keep_best()  # again, because a full disk may have refused it before
    return ExitCode.DONE


def _train(
    sweep: Sweep,
    trial: Trial,
    begins: Callable[[Trial, bool], None],
    progress: Callable[[int, int], None],
    note: Callable[[str], object],
) -> tuple[ExitCode, Trained | None]:
    """Trains a trial; without a result, the trial is left for a worker to resume."""
    resumes = (trial.path / "config.json").exists()
    begins(trial, resumes)
    config = sweep.space.config_of(trial.values, trial.path)
    # The folder may come from anybody, so only code that the space names is imported.
    own = {name: each.text for name, each in code_of(config).items()}
    start = launch(
        None if resumes else config,
        resume_run=str(trial.path) if resumes else None,
        changes=own if resumes else {},
        trust_code=sweep.space.trust_code,
        lock=trial.lock,
    )
    with start as ready:
        folder: RunFolder = ready.open_folder()
        length = Length.from_config(ready.config)
        watch = _Watch(trial, sweep.metric, length, progress, folder.metrics, note)
        result = ready.run(folder, hooks=[watch])
    if result.exit_code is ExitCode.UNHEALTHY:
        return ExitCode.DONE, Trained(trial, "PRUNED", why="training went wrong")
    if result.exit_code is not ExitCode.DONE:
        return result.exit_code, None
    if watch.pruned_at is not None:
        return ExitCode.DONE, Trained(trial, "PRUNED", watch.value, f"after {watch.pruned_at}%")
    if watch.value is None:
        return ExitCode.DONE, Trained(trial, "FAIL", why=f"never logged {sweep.metric}")
    return ExitCode.DONE, Trained(trial, "COMPLETE", watch.value)
