"""A sweep as a study of Optuna, which workers on any number of machines share."""

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix_rl.runs import RunLock, check_links, toml_of
from hackmatrix_rl.runs.checkpoints import check_place
from hackmatrix_rl.runs.config import (
    RunConfig,
    check_trusted,
    code_of,
    config_from_dict,
    settings_of,
    with_rate_text,
)
from hackmatrix_rl.runs.sweeps._journal import IDENTITY, Journal, check_study, usable
from hackmatrix_rl.runs.sweeps._space import Space, shown
from hackmatrix_rl.system import check_path, is_remote, read_json, require, typed_path, write_whole
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing

JOURNAL = "journal.log"
FIRST_RUNG, THIRD = 12, 3
"""Successive halving: a third continues after 12% of a training, and a third of these after 36%."""
GRACE_SECONDS = 30
"""Seconds after which the journal's lock is taken from a worker that died with it."""


@dataclass(frozen=True)
class Trial:
    """A trial that this process trains, as long as it holds the lock of the run's folder.

    `reported` is the last percentage of the training at which its metric was reported to Optuna.
    """

    number: int
    path: Path
    values: Mapping[str, Any]
    lock: RunLock
    reported: int
    of_optuna: Any

    def prune(self, value: float, percent: int) -> bool:
        """Reports the metric at a percentage of the training; returns whether to end the trial."""
        self.of_optuna.report(value, percent)
        return bool(self.of_optuna.should_prune())


@dataclass(frozen=True)
class Sweep:
    """A study, and how its trials are trained.

    Attributes:
        space: the search space.
        metric: the metric to optimize.
        minimize: whether smaller is better.
        folder: the folder of all trials.
        study: Optuna's study.
        trials: the number of trials to train, over all workers.
        sampler: a name in `SAMPLERS`.
        seed: the seed of the sampler; the draws of a trial follow from it and the trial's number.
        remote: whether the study is in a database instead of the folder.
    """

    space: Space
    metric: str
    minimize: bool
    folder: Path
    study: Any
    trials: int
    sampler: str
    seed: int
    remote: bool

    def path(self, number: int) -> Path:
        return self.folder / f"trial-{number:04}"

    def take(self) -> Trial | None:
        """The next trial, abandoned or new; `None` if this worker has none to train.

        A running trial of Optuna was abandoned if the folder of its run is not locked.
        """
        states = require_optuna().trial.TrialState
        for each in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            # With a database, a folder that is not here may be on a machine that trains in it.
            if self.remote and not self.path(each.number).is_dir():
                continue
            if (lock := self._lock(each.number)) is None:
                continue
            if self.study.get_trials(deepcopy=False)[each.number].state == states.RUNNING:
                return self._trial(each.number, each._trial_id, lock, each.intermediate_values)
            lock.close()  # it ended before this process had the lock
        while len(self.study.get_trials(deepcopy=False)) < self.trials:
            self.study.sampler = require_optuna().samplers.RandomSampler()  # `_trial` draws
            asked = self.study.ask()
            if asked.number >= self.trials:  # another worker took the last one meanwhile
                self.study.tell(asked.number, state=states.FAIL)
                return None
            # Another worker may have found it without a lock, and trains it.
            if (lock := self._lock(asked.number, new=True)) is not None:
                return self._trial(asked.number, asked._trial_id, lock, {})
        return None

    def next_values(self, count: int) -> list[dict[str, Any]]:
        """The settings of the next trials if none ends before; nothing is stored."""
        direction = self.study.direction
        copy = require_optuna().create_study(direction=direction, sampler=self._sampler(0))
        copy.add_trials(self.study.get_trials())
        found = []
        for _ in range(min(count, self.trials - len(copy.get_trials(deepcopy=False)))):
            asked = copy.ask()
            found.append(self._drawn(copy, asked.number, asked._trial_id)[1])
        return found

    def end(self, trial: Trial, state: str, value: float | None = None, why: str = "") -> None:
        """Reports to Optuna how a trial ended: `COMPLETE`, `PRUNED` or `FAIL`; keeps the best."""
        if why:
            trial.of_optuna.set_user_attr("why", why)
        states = require_optuna().trial.TrialState
        complete = state == "COMPLETE"
        # Optuna sets the value of a pruned trial to the last reported one.
        self.study.tell(trial.number, values=value if complete else None, state=states[state])
        if complete:
            self.keep_best()

    @property
    def best(self) -> tuple[int, float] | None:
        return best_of(self.study)

    def counts(self) -> dict[str, int]:
        """The number of trials by state: `COMPLETE`, `PRUNED`, `FAIL`, `RUNNING`."""
        found = [each.state.name for each in self.study.get_trials(deepcopy=False)]
        return {name: found.count(name) for name in ("COMPLETE", "PRUNED", "FAIL", "RUNNING")}

    def _lock(self, number: int, *, new: bool = False) -> RunLock | None:
        """The lock of a trial's folder; `None` if another process has it.

        On a file system without locks, it is also `None`, unless the trial is `new`: whether an old
        one was abandoned is then unknown.
        """
        lock = RunLock()
        try:
            lock.take("--folder", self.path(number))
        except ConfigError as error:
            if isinstance(error.__cause__, BlockingIOError):
                return None
            raise
        if lock.notes and not new:
            lock.close()
            return None
        return lock

    def _trial(
        self, number: int, trial_id: int, lock: RunLock, reports: Mapping[int, float]
    ) -> Trial:
        trial, values = self._drawn(self.study, number, trial_id)
        return Trial(number, self.path(number), values, lock, max(reports, default=0), trial)

    def _drawn(self, study: Any, number: int, trial_id: int) -> tuple[Any, dict[str, Any]]:
        """A trial and its settings, which are drawn from the seed and its number if it is new."""
        study.sampler = self._sampler(number)
        trial = require_optuna().trial.Trial(study, trial_id)
        return trial, self.space.suggest(trial)

    def _sampler(self, number: int) -> Any:
        """The sampler of a trial: workers that start with one seed must not draw the same."""
        samplers = require_optuna().samplers
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        if self.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        # Settings that other workers train count as bad, so workers try different ones.
        return samplers.TPESampler(seed=seed, constant_liar=True)

    def best_config(self) -> RunConfig | None:
        """The stored settings of the best trial; `None` without one, or without its folder."""
        if (best := self.best) is None:
            return None
        source = self.path(best[0]) / "config.json"
        try:
            stored = read_json(source)
        except (OSError, DamagedFileError):  # its folder is gone
            return None
        if stored is None:
            return None
        config = config_from_dict(stored)
        code = code_of(config).items()
        named = [name for name, each in code if self.space.names_code(name, each.text)]
        check_trusted(config, source, trust_code=self.space.trust_code, named=named)
        return config

    def keep_best(self) -> None:
        """Writes the settings of the best trial as a file for `train --config`."""
        if (best := self.best) is None or (config := self.best_config()) is None:
            return
        left_out = {"run_dir": None, "checkpoint_dir": None, "seeds": 1}
        own = {each.name for each in settings_of(config)}
        kept = {name: value for name, value in left_out.items() if name in own}
        text = toml_of(config_from_dict({**config.as_dict(), **kept}))
        said = f"# {self.metric} {shown(best[1])} in trial {best[0]} of {self.folder.name}\n"
        write_whole(self.folder / "best.toml", said + text)


def is_sweep(folder: Path) -> bool:
    """Whether a folder holds the journal of a sweep."""
    try:
        return (folder / JOURNAL).is_file()
    except (OSError, ValueError):  # no folder can have this name
        return False


def open_sweep(
    space: Space,
    *,
    metric: str,
    minimize: bool,
    folder: Path,
    storage: str | None,
    trials: int,
    sampler: str,
    seed: int,
    prune: bool,
    look: bool = False,
    report: Callable[[str], object] = print,
) -> Sweep:
    """The sweep of a folder, created if it is new; with `look`, nothing is written.

    `report` takes a message about a truncated journal.
    """
    optuna = require_optuna()
    identity = {**space.identity, "metric": f"{metric}, to be {'small' if minimize else 'large'}"}
    study = find_study(folder, storage, report=report)
    place = f"--folder {folder}" if storage is None else f"--storage, study {folder.name}"
    direction = "minimize" if minimize else "maximize"
    if study is None and look:
        study = optuna.create_study(direction=direction)
    elif study is None:
        with refusing(f"--folder {folder}: cannot be written: ", of=OSError):
            folder.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=_storage(folder, storage, report),
            study_name=_name(folder, storage),
            direction=direction,
            load_if_exists=True,  # another worker may have just created it
        )
    stored = identity_of(study)
    # If a worker ended after the first line, only the direction is stored.
    begun = {} if stored else {"metric, to be large": str(study.direction.name == "MAXIMIZE")}
    _check_same(stored or begun, {**identity, "metric, to be large": str(not minimize)}, place)
    if not stored and not look:
        study.set_user_attr(IDENTITY, identity)
    study.pruner = optuna.pruners.NopPruner()
    if prune:
        study.pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=FIRST_RUNG, reduction_factor=THIRD
        )
    sweep = Sweep(
        space, metric, minimize, folder, study, trials, sampler, seed, remote=storage is not None
    )
    sweep.best_config()  # refuses untrusted code before anything is trained
    return sweep


def find_study(
    folder: Path, storage: str | None, *, report: Callable[[str], object] = print
) -> Any:
    """Optuna's study of a folder, checked; `None` if there is none yet. Nothing is written.

    `report` takes a message about a truncated journal.
    """
    optuna = require_optuna()
    if storage is None and not is_sweep(folder):
        return None
    with usable(_said(folder, storage)):
        if storage is not None and not _is_database(storage):
            return None
        name, kept = _name(folder, storage), _storage(folder, storage, report)
        try:
            study = optuna.load_study(study_name=name, storage=kept)
        except KeyError:
            return None
        check_study(study)
        return study


def identity_of(study: Any) -> Mapping[str, str]:
    """The `Space.identity` of a study, with its metric."""
    found: Mapping[str, str] = study.user_attrs.get(IDENTITY, {})
    return found


def best_of(study: Any) -> tuple[int, float] | None:
    """The number and the value of a study's best trial; `None` if none is complete."""
    try:
        best = study.best_trial
    except ValueError:
        return None
    return best.number, best.value


def check_folder(folder: Path) -> None:
    """Raises a ConfigError unless runs of several machines can share a folder of this name."""
    check_path(str(folder), "--folder")
    if is_remote(str(folder)) or ":/" in str(folder):
        raise ConfigError(
            f"--folder {folder}: must be a folder that all machines mount, because its locks say "
            "which trials were left."
        )
    check_place(folder, "--folder")
    with refusing(f"--folder {folder}: ", ". Use another folder.", of=OSError):
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there} is a file")
    if there == folder:
        # The folder of each trial is checked when the trial is taken.
        check_links(folder, f"--folder {folder}", deep=False)


def _check_same(stored: Mapping[str, str], identity: Mapping[str, str], place: str) -> None:
    """Refuses the study of another space."""
    stored = with_rate_text(stored)
    for name, value in identity.items():
        # Another version may know more settings.
        if stored.get(name, value) != value:
            raise ConfigError(
                f"{place}: holds a sweep of another space: {name} is {stored[name]} there, and "
                f"{value} here. Use another --folder, or that space."
            )


def _name(folder: Path, storage: str | None) -> str:
    """The name of the study; a journal has only one, and its folder may be renamed."""
    return "sweep" if storage is None else folder.resolve().name


def _said(folder: Path, url: str | None) -> str:
    return f"--folder {folder}: the journal" if url is None else "--storage: the database"


def _typed_url(url: str) -> str:
    """The URL of a database with `~` expanded: `sqlite:///~/sweeps.db`."""
    kind, slashes, file = url.partition(":///")
    return kind + slashes + typed_path(file) if slashes else url


def _is_database(url: str) -> bool:
    """Whether there is a database with Optuna's tables, which opening it would create."""
    import sqlalchemy

    named = sqlalchemy.make_url(_typed_url(url))
    if named.get_backend_name() == "sqlite":
        file = named.database or ""
        # Connecting creates the file. A name that begins with `file:` is a URI with options.
        if not file.startswith("file:") and not os.path.exists(file):
            return False
    engine = sqlalchemy.create_engine(named)
    try:
        return bool(sqlalchemy.inspect(engine).has_table("studies"))
    finally:
        engine.dispose()


def _storage(folder: Path, url: str | None, report: Callable[[str], object] = print) -> Any:
    storages = require_optuna().storages
    with usable(_said(folder, url)):
        if url is not None:
            return storages.RDBStorage(_typed_url(url))
        file = folder / JOURNAL
        # Optuna's default lock is a link to the journal. If the link is broken, such as for a
        # relative path or another mount point, the lock is never released.
        lock = storages.journal.JournalFileOpenLock(str(file), grace_period=GRACE_SECONDS)
        return storages.JournalStorage(Journal(file, lock, report))


def require_optuna() -> Any:
    """Optuna, imported lazily, with only its warnings logged."""
    optuna = require("optuna", extra="sweep", caller="hackmatrix-rl sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
