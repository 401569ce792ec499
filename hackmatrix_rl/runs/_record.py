"""Reads the record of a run from its folder, even if files are missing or damaged."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from etils import epath

from hackmatrix_rl.runs._folder import RunFolder, find_run_folder
from hackmatrix_rl.runs._lock import is_locked
from hackmatrix_rl.runs.checkpoints import SAVED_BY, saved_run, saved_trainings
from hackmatrix_rl.runs.config import (
    MOST_MEMBERS,
    RunConfig,
    algorithms,
    baseline_algorithm,
    member_settings,
    options_of,
    typed,
    with_rate_text,
)
from hackmatrix_rl.runs.sinks import rows_and_damage
from hackmatrix_rl.system import read_bounded, read_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError
from hackmatrix_rl.view.replays import Recording, Replay, load_game

T = TypeVar("T")

_TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
_ENDS = ("trained to the end at", "stopped at")
_WARNINGS = (
    *("Warning:", "COULD NOT", "could not", "cannot write", "can be written again", "Stopping"),
    *("was removed", "damaged", "missing", "since the last start", "dropped", "are lost"),
)


@dataclass(frozen=True)
class RunRecord:
    """The readable part of a run's folder.

    `starts` has the entries of `versions.json`. `summary` has the evaluation of each player.
    `replays` begins with the newest. The lines of `log` include their times. `running` is whether a
    process holds the lock of the folder.
    """

    folder: RunFolder
    config: Mapping[str, Any]
    starts: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    replays: Sequence[tuple[str, Replay | Recording]]
    log: Sequence[str]
    running: bool
    missing: Sequence[str] = field(default_factory=tuple)

    @property
    def warnings(self) -> list[str]:
        """The lines of the log about problems."""
        return [line for line in self.log if any(sign in line for sign in _WARNINGS)]

    @property
    def resumes(self) -> list[str]:
        """The lines of the log about resumes."""
        return [line for line in self.log if _said(line).startswith("resumed at update")]

    @property
    def end(self) -> str:
        """The end of the run, in a sentence."""
        last = self.log[-1] if self.log else ""
        if self.running:
            return "It is still running."
        ends = [place for place, line in enumerate(self.log) if _said(line).startswith(_ENDS)]
        if ends and not any("resumed at" in line for line in self.log[ends[-1] :]):
            return f"It {_said(self.log[ends[-1]])}."
        stops = [line for line in self.log if "Stopping" in line]
        if stops:
            return f"Training stopped because it went wrong: {_said(stops[-1])}"
        if not self.log:
            return "It has no log, so its end is unknown."
        return f"It was killed, or still runs on another machine; last log entry: {last[:19]}."

    @property
    def kind(self) -> type[RunConfig]:
        """The config class of its algorithm."""
        return kind_of(self.config)

    @property
    def saved_by(self) -> str | None:
        """`hm.SaveRun`, if that wrote the run."""
        return SAVED_BY if self.config.get("saved_by") == SAVED_BY else None

    @property
    def hook_metrics(self) -> list[str]:
        """The metrics that hooks added in a run of `hm.SaveRun`."""
        named = self.config.get("hook_metrics")
        return [each for each in named if isinstance(each, str)] if isinstance(named, list) else []

    @property
    def fields(self) -> "list[dataclasses.Field[Any]]":
        """The settings that a run of its algorithm has."""
        return options_of(self.kind)

    def changed(self) -> tuple[str, dict[str, Any]]:
        """The nearest preset, or the defaults without one, and the settings that differ from it."""
        fields = {each.name: each for each in self.fields}
        defaults = {name: each.default for name, each in fields.items()}
        place = {name: self.config[name] for name in ("env",) if name in self.config}
        presets: dict[str, Mapping[str, Any]] = {
            f"the preset {name}, which is the nearest": self.kind.preset_settings(name, place)
            for name in self.kind.presets
        } or {"the default": {}}
        differences = {
            said: {
                key: value
                for key, value in self.config.items()
                if key not in _OWN
                and key in defaults
                and value != typed(fields[key], {**defaults, **preset}[key])
            }
            for said, preset in presets.items()
        }
        nearest = min(differences, key=lambda said: len(differences[said]))
        return nearest, differences[nearest]


_OWN = ("run_dir", "checkpoint_dir", "device")  # they do not affect how a run trains


def kind_of(config: Mapping[str, Any]) -> type[RunConfig]:
    """The config class of the algorithm in stored settings; the baseline's if it is unknown."""
    known, named = algorithms(), config.get("algorithm")
    return known[named if isinstance(named, str) and named in known else baseline_algorithm()]


def value_in_words(value: object) -> str:
    """The value of a setting, as a user writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def settings_of_members(config: Mapping[str, Any]) -> list[str]:
    """The varied settings of each training in stored settings; `[""]` for a single one.

    The stored settings are untrusted: invalid ones count as a single training.
    """
    if config.get("saved_by") == SAVED_BY:
        return saved_trainings(config)
    vary, seeds = config.get("vary"), config.get("seeds", 1)
    if not isinstance(seeds, int) or not 1 <= seeds <= MOST_MEMBERS:
        return [""]
    try:
        found = member_settings(vary if isinstance(vary, str) else None, seeds)
    except ValueError:
        return [""]
    return found if len(found) <= MOST_MEMBERS else [""]


def seeds_in_words(config: Mapping[str, Any]) -> str:
    """The seed of a run, or the range of its trainings' seeds: `0 to 3`."""
    seed, seeds = config.get("seed", ""), config.get("seeds")
    if not isinstance(seed, int) or not isinstance(seeds, int) or seeds < 2:
        return str(seed)
    return f"{seed} to {seed + seeds - 1}"


def read_run(run: str) -> RunRecord:
    """Reads a run from its folder. No file in it is required, and none is trusted."""
    path = find_run_folder(run)
    if path is None or not path.is_dir():
        raise ConfigError(
            f"{run}: holds no run. Give a run's folder, such as runs/2030-01-31_12-00-00, or its "
            "name under runs/."
        )
    folder = RunFolder(path, epath.Path(path / "checkpoints"), "")
    missing: list[str] = []
    saved = saved_run(path) is not None  # such a run may have no evaluation

    def read(what: str, file: Path, get: Callable[[Path], T | None], otherwise: T) -> T:
        try:
            found = get(file)
        except (OSError, ValueError, DamagedFileError, ConfigError) as error:
            missing.append(f"{file.name} ({what}) {_why(error, file)}")
            return otherwise
        if found is None and not (saved and file == folder.summary):
            missing.append(f"{file.name} ({what}) is not there")
        return otherwise if found is None else found

    nothing: list[dict[str, Any]] = []
    no_fields: dict[str, Any] = {}
    rows, damage = read("metrics", folder.metrics, rows_and_damage, (nothing, 0))
    if damage:
        missing.append(f"{folder.metrics.name} holds {damage} damaged lines, which are left out")
    starts = read("versions", folder.versions, read_json, no_fields).get("starts")
    replays = []
    for file in sorted(folder.replays.glob("*.json"), reverse=True):
        replay = read("a replay", file, load_game, None)
        replays += [] if replay is None else [(file.name, replay)]
    return RunRecord(
        folder=folder,
        config=with_rate_text(read("settings", folder.config, read_json, no_fields)),
        starts=_mappings(starts),
        rows=rows,
        summary=read("evaluation at the end", folder.summary, read_json, no_fields),
        replays=replays,
        log=read("log", folder.log, _text, "").splitlines(),
        running=is_locked(path),
        missing=tuple(missing),
    )


def _text(file: Path) -> str:
    return read_bounded(file).decode("utf-8", "replace")


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _said(line: str) -> str:
    """A line of the log without its time."""
    return _TIME.sub("", line)


def _why(error: Exception, file: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be used: {said.removeprefix(f'{file}: ')}"
