"""The search space of a sweep: the settings of all trials, and the searched ones."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hackmatrix_rl.runs import compose, config_here, preflight
from hackmatrix_rl.runs.config import RunConfig, checked_value, closest, read_space, settings_of
from hackmatrix_rl.system.errors import ConfigError, shortened
from hackmatrix_rl.training import Dispatch

_NOT_SEARCHED = (
    *("algorithm", "preset", "env", "env_args", "seed", "seeds", "vary", "run_dir"),
    *("checkpoint_dir", "device", "deterministic", "mesh", "cpu_devices"),
)
_ANYHOW = ("Watching", "Memory", "Devices")
_OF_A_RUN = (
    *("run_dir", "checkpoint_dir", "device", "keep", "keep_best", "keep_every"),
    *("save_interval", "save_interval_minutes", "replays", "eval_episodes"),
)
"""Groups and settings that may differ between two workers of a sweep."""
_EVALUATION = "eval/"
_NUMBER = "{}"
_LONG = re.compile(r"\d+\.\d{5,17}(e-\d\d?)?")


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; with a `step`, those on its grid from `low` on.

    With a `schedule`, the number replaces `{}` in that text: `constant:{}` -> `constant:0.001`.
    """

    low: int | float
    high: int | float
    step: int | float | None
    log: bool
    schedule: str = ""

    def suggest(self, trial: Any, name: str) -> int | float | str:
        """The value of a trial, which Optuna draws if the trial has none."""
        found: int | float
        if isinstance(self.low, int):
            found = trial.suggest_int(name, self.low, self.high, step=self.step or 1, log=self.log)
        else:
            found = trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)
        return scheduled(self.schedule, found) if self.schedule else found

    def __str__(self) -> str:
        step = "" if self.step is None else f", in steps of {self.step}"
        schedule = f", as {self.schedule}" if self.schedule else ""
        return f"{self.low} to {self.high}{step}{', log' if self.log else ''}{schedule}"


def scheduled(schedule: str, number: float) -> str:
    """The text of a schedule, with a number instead of `{}`."""
    return schedule.replace(_NUMBER, repr(number))


@dataclass(frozen=True)
class Choice:
    """A finite set of values."""

    choices: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """The value of a trial, which Optuna draws if the trial has none."""
        return trial.suggest_categorical(name, self.choices)

    def __str__(self) -> str:
        return " or ".join(map(shown, self.choices))


@dataclass(frozen=True)
class Space:
    """The search space of a sweep.

    Attributes:
        settings: the settings of all trials, as in the file.
        searched: the values of each searched setting.
        config: the config of `settings` alone.
        trust_code: whether code that other runs name may be imported.
    """

    settings: Mapping[str, Any]
    searched: Mapping[str, Range | Choice]
    config: RunConfig
    trust_code: bool = False

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The searched settings of a trial."""
        return {name: each.suggest(trial, name) for name, each in self.searched.items()}

    def config_of(self, values: Mapping[str, Any], folder: Path) -> RunConfig:
        """The config of a trial with these values, for a run in this folder."""
        settings = {**self.settings, **values, "run_dir": str(folder)}
        return config_here(None, settings, trust_code=self.trust_code)

    def names_code(self, name: str, text: str) -> bool:
        """Whether the user's file names this code as a value of the setting."""
        searched = self.searched.get(name)
        own = searched.choices if isinstance(searched, Choice) else (getattr(self.config, name),)
        return text in own

    @property
    def identity(self) -> dict[str, str]:
        """The common settings of all trials and the searched ones, as texts by name."""
        own = {
            each.name: str(getattr(self.config, each.name))
            for each in settings_of(self.config)
            if each.metadata["group"] not in _ANYHOW and each.name not in _OF_A_RUN
        }
        searched = {name: str(each) for name, each in self.searched.items()}
        return {
            "[space]": ", ".join(sorted(searched)),
            "algorithm": self.config.algorithm,
            **own,
            **searched,
        }

    def check(self, metric: str, folder: Path) -> None:
        """Checks that trainings can work here, and log a metric. Nothing is compiled.

        Raises:
            ConfigError: they cannot, or they log no metric of this name.
        """
        trainer = compose(self.config)
        preflight(self.config, trainer, folder=str(folder))
        if not trainer.environment.pure:  # its games cannot be traced
            return
        algorithm = trainer.algorithm
        _, report = eqx.filter_eval_shape(algorithm, trainer.abstract_state())
        # The names depend on the arrays, not on their values.
        filled = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), report)
        metrics = algorithm.metrics(filled, Dispatch(count=1, updates=1, env_steps=1, seconds=1.0))
        known = list(metrics.as_dict())
        said = f"--metric {shortened(metric)}"
        if metric.startswith(_EVALUATION):
            if not getattr(self.config, "eval_interval", 0):
                raise ConfigError(
                    f"{said}: no evaluation is logged during these trainings. Add eval_interval = "
                    "20, say, in updates."
                )
            known = [f"{_EVALUATION}{name}" for name in metrics.episode]
        if metric not in known and known:
            # Leave out the many metrics of single members and of single terms of the reward.
            few = [name for name in known if "/" not in name.removeprefix(_EVALUATION)]
            raise ConfigError(
                f"{said}: not among the metrics of these trainings. Use {', '.join(few)}. "
                f"{closest(metric, known)}".rstrip()
            )


def space_here(
    file: Path, *, seeds: int = 1, trust_code: bool = False, report: Callable[[str], object]
) -> Space:
    """The checked space of a file on this machine; a trial has `seeds` trainings."""
    settings, tables = read_space(file, report=report)
    for name in ("run_dir", "checkpoint_dir", "vary"):
        if name in settings:
            raise ConfigError(f"{file}: {name} is of one run, and a sweep has many. Leave it out.")
    if seeds > 1:
        settings["seeds"] = seeds
    config = config_here(None, settings, trust_code=trust_code)
    searched = {name: _searched(config, name, table, file) for name, table in tables.items()}
    return Space(settings, searched, config, trust_code)


def _searched(config: RunConfig, name: str, table: Any, file: Path) -> Range | Choice:
    """The values of a setting in a table of `[space]`."""
    said = f"{file}: [space] {name}"
    if name in _NOT_SEARCHED:
        raise ConfigError(f"{said}: is the same for all trials. Put it above [space].")
    if isinstance(table, Mapping):
        unknown = table.keys() - {"low", "high", "step", "log", "schedule", "choices"}
        if not unknown and table.keys() == {"choices"} and isinstance(table["choices"], list):
            return _choice(config, name, table["choices"], said)
        if not unknown and {"low", "high"} <= table.keys() and "choices" not in table:
            return _range(config, name, table, said)
    raise ConfigError(
        f"{said} {shortened(table)}: not understood. Use {{low = 1, high = 8}}, with step = 1 or "
        "log = true, or {choices = [1, 2, 4]}."
    )


def _choice(config: RunConfig, name: str, choices: list[Any], said: str) -> Choice:
    values = tuple(checked_value(config, name, each) for each in choices)
    if len({repr(each) for each in values}) < max(2, len(values)):
        raise ConfigError(f"{said}: choices must be two different values or more.")
    return Choice(values)


def _range(config: RunConfig, name: str, table: Mapping[str, Any], said: str) -> Range:
    low, high = (checked_value(config, name, table[end]) for end in ("low", "high"))
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if not numbers:
        raise ConfigError(f"{said}: is not a number. Use {{choices = [...]}}.")
    step, log, schedule = table.get("step"), table.get("log", False), table.get("schedule", "")
    if schedule and not (isinstance(schedule, str) and _NUMBER in schedule):
        raise ConfigError(
            f"{said}: schedule {shortened(schedule)} must be a text with {{}} for the number: "
            'schedule = "constant:{}".'
        )
    for end in (low, high) if schedule else ():
        checked_value(config, name, scheduled(schedule, end))
    if low >= high:
        raise ConfigError(f"{said}: low {low} must be less than high {high}.")
    if not isinstance(log, bool) or (log and step is not None):
        raise ConfigError(f"{said}: log must be true or false, and has no step.")
    if log and low <= 0:
        raise ConfigError(f"{said}: low {low} must be more than 0 with log = true.")
    if step is not None:
        fits = isinstance(step, type(low) if isinstance(low, int) else int | float)
        if not fits or isinstance(step, bool) or not 0 < step <= high - low:
            raise ConfigError(f"{said}: step {shortened(step)} must be between 0 and high - low.")
        steps = (high - low) / step
        if not math.isclose(steps, round(steps), abs_tol=1e-6):
            last = low + math.floor(steps) * step
            raise ConfigError(
                f"{said}: steps of {step} from {low} end at {last:g}, not at {high}. Use high = "
                f"{last:g}."
            )
    return Range(low, high, step, log, schedule)


def in_words(values: Mapping[str, Any]) -> str:
    """Settings in words: `learning_rate 0.00031, num_steps 32`."""
    return ", ".join(f"{name} {shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """A value of a setting, rounded to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return _LONG.sub(lambda found: f"{float(found[0]):.4g}", value)
    return "none" if value is None else str(value)
