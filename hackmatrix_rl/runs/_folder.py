"""A run's folder and its files."""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from etils import epath

from hackmatrix_rl.runs._lock import CHECKPOINTS, LOCK, RunLock, check_links, unwritable
from hackmatrix_rl.runs.checkpoints import check_place, name_trouble, valid_names
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import (
    check_path,
    is_remote,
    read_json,
    storage_path,
    typed_path,
    write_json,
    write_whole,
)
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, in_shell, refusing, shortened

_MARKS = ("config.json", "run.json", "checkpoints", "metrics.jsonl")
"""Any of these identifies the folder of a run."""
FETCHED_FROM = ("wandb_entity", "wandb_project")
"""Further keys in the `run.json` of a run that was fetched from Weights & Biases."""
RUNS = Path("runs")
"""The default folder of runs."""


class _File:
    """A descriptor: the path of a file in a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", owner: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, whose name is the run's id.

    `checkpoints` is inside it by default, and may be remote. `wandb_id` is globally unique.
    Processes other than 0 write only a log.
    """

    path: Path
    checkpoints: epath.Path
    wandb_id: str
    process: int = 0
    notes: tuple[str, ...] = ()

    config = _File("config.json")  #: JSON: the settings.
    run = _File("run.json")  #: JSON: the run's id and aliases.
    versions = _File("versions.json")  #: JSON: software and hardware of each start.
    metrics = _File("metrics.jsonl")  #: One JSON object for each log interval.
    curve = _File("learning_curve.png")  #: The learning curve as a picture.
    lineage = _File("lineage.png")  #: Settings of a population-based training as a picture.
    schedule = _File("schedule.toml")  #: TOML: one training with the settings that it found.
    summary = _File("summary.json")  #: JSON: results of the policy, and of random and runner.
    replays = _File("replays")  #: Folder of replays of evaluation games.
    page = _File("replay.html")  #: HTML: the newest of these games.

    @property
    def run_id(self) -> str:
        """The run's id."""
        return _name(self.path)

    @property
    def identity(self) -> dict[str, str]:
        """The run's id and aliases."""
        return {"run_id": self.run_id, "wandb_id": self.wandb_id}

    @property
    def log(self) -> Path:
        """The messages with the time of day; each process has its own log."""
        name = "log.txt" if self.process == 0 else f"log-process-{self.process}.txt"
        return self.path / name

    def removed(self) -> Path | epath.Path | None:
        """The folder that was removed or taken by another run during this run, or `None`.

        Only process 0 checks, and not object stores. An unreachable disk does not count, because it
        may return.
        """
        if self.process > 0:
            return None
        try:
            stored = stored_identity(self.path).get("wandb_id", self.wandb_id)
            if not self.run.exists() or stored != self.wandb_id:
                return self.path
            if not is_remote(self.checkpoints) and not self.checkpoints.is_dir():
                return self.checkpoints
        except OSError:
            pass
        return None

    def as_dict(self) -> dict[str, Any]:
        """The fields in a form for JSON."""
        return {
            "path": str(self.path),
            "checkpoints": str(self.checkpoints),
            "wandb_id": self.wandb_id,
            "notes": list(self.notes),
        }

    @classmethod
    def seen_by(cls, process: int, fields: Mapping[str, Any]) -> "RunFolder":
        """The folder in this process, from `as_dict` of process 0; it is created if missing."""
        folder = cls(
            path=Path(fields["path"]),
            checkpoints=epath.Path(fields["checkpoints"]),
            wandb_id=fields["wandb_id"],
            process=process,
            notes=tuple(fields["notes"]) if process == 0 else (),
        )
        folder.path.mkdir(parents=True, exist_ok=True)  # hosts may share no disk
        return folder


def make_run_folder(
    config: RunConfig, *, lock: RunLock | None = None, now: Callable[[], datetime] = datetime.now
) -> RunFolder:
    """Creates the folder of a new run and writes its config.

    `lock` locks the folders before anything is written, until it is closed. By default, they are
    unlocked on return.
    """
    if lock is None:
        with RunLock() as own:
            return make_run_folder(config, lock=own, now=now)
    check_names(config)
    if config.run_dir:
        path = Path(config.run_dir)
        lock.take("--run-dir", path)
        check_links(path, f"--run-dir {path}", checkpoints=not config.checkpoint_dir)
    else:
        path = _take_dated(lock, now())
    folder = RunFolder(path, _checkpoints(config, path), new_wandb_id(path))
    _take_checkpoints(lock, config, folder)
    _check_free(path, folder.checkpoints)
    _check_files(folder)
    _write_down(config, folder)
    return replace(folder, notes=tuple(lock.notes))


def reopen_run_folder(
    config: RunConfig, path: Path, identity: Mapping[str, str], *, lock: RunLock | None = None
) -> RunFolder:
    """Reopens the folder of a resumed run and rewrites its config.

    If the folder was lost but its checkpoints are elsewhere, this recreates it with the id and
    aliases from a checkpoint. `lock` may hold the folders already.
    """
    if lock is None:
        with RunLock() as own:
            return reopen_run_folder(config, path, identity, lock=own)
    folder = RunFolder(path, _checkpoints(config, path), identity["wandb_id"])
    check_names(config, path, option="--resume-run")
    lock.take("--resume-run", path)
    _take_checkpoints(lock, config, folder)
    _check_files(folder)
    _write_down(config, folder)
    return replace(folder, notes=tuple(lock.notes))


def with_typed_paths(config: RunConfig) -> RunConfig:
    """The config of a new run with `~` expanded in the folders of every stage.

    The checkpoint folder becomes absolute, because its stored path may be read from another working
    directory.
    """
    run_dir, checkpoint_dir = config.run_dir, config.checkpoint_dir
    return replace(
        config,
        run_dir=run_dir and typed_path(run_dir),
        checkpoint_dir=checkpoint_dir and typed_path(checkpoint_dir, lasting=True),
        then=config.then and with_typed_paths(config.then),
    )


def find_run_folder(run: str) -> Path | None:
    """The folder of a run, by its path, its name under `runs/`, or its wandb id."""
    run = typed_path(run)
    check_path(run, "the run")
    for place in (Path(run), RUNS / run):
        with refusing(f"{place}: cannot be read: ", of=OSError):
            if any((place / name).exists() for name in _MARKS):
                return place
    for folder in run_folders():
        if stored_identity(folder).get("wandb_id") == run:
            return folder
    return None


def run_folders() -> list[Path]:
    """The folders under `runs/`."""
    return sorted(folder for folder in RUNS.glob("*") if folder.is_dir())


def stored_identity(path: Path) -> dict[str, str]:
    """The id and aliases in a run's folder; empty without them."""
    try:
        content = read_json(path / "run.json")
    except DamagedFileError:  # the checkpoints have them as well
        return {}
    return valid_names(content)


def new_wandb_id(path: Path) -> str:
    """A new, globally unique id; under an agent of a W&B sweep, the agent's id."""
    given = os.environ.get("WANDB_RUN_ID") or None if os.environ.get("WANDB_SWEEP_ID") else None
    if given is None:
        plain = re.sub(r"[^\w.-]", "_", _name(path))  # the service refuses some characters
        return f"{plain}-{secrets.token_hex(4)}"
    if not valid_names({"wandb_id": given}):
        raise ConfigError(f"WANDB_RUN_ID {shortened(given)}: cannot name a run. Use a plain name.")
    return given


def check_names(config: RunConfig, path: Path | None = None, *, option: str = "--run-dir") -> None:
    """Refuses folder names under which a checkpoint could be written but not read.

    `path` is the run's folder, by default the config's; `option` is the flag that named it.
    """
    path = path or Path(config.run_dir or RUNS)
    if (wrong := name_trouble(_name(path))) is not None:
        raise ConfigError(f"{option} {path}: {wrong}. Use another folder.")
    if config.checkpoint_dir:
        check_place(config.checkpoint_dir, "--checkpoint-dir")
    else:
        check_place(path / CHECKPOINTS, option)


def check_run_folder(config: RunConfig) -> None:
    """Raises the errors of `make_run_folder`, and leaves no files behind."""
    path = Path(config.run_dir) if config.run_dir else RUNS
    check_names(config)
    checkpoints = _checkpoints(config, path)
    for folder, option in ((epath.Path(path), "--run-dir"), (checkpoints, "--checkpoint-dir")):
        there = next(each for each in (folder, *folder.parents) if each.exists())
        _make_writable(there, option)
    if config.run_dir or config.checkpoint_dir:
        _check_free(path, checkpoints)


def _check_free(path: Path, checkpoints: epath.Path) -> None:
    if any((path / name).exists() for name in ("config.json", "run.json", "metrics.jsonl")):
        raise ConfigError(
            f"--run-dir {path}: holds a run already. Choose another folder, or resume it: "
            f"{in_shell('--resume-run', path)}"
        )
    if checkpoints.is_dir() and any(each.name != LOCK for each in checkpoints.iterdir()):
        raise ConfigError(
            f"--checkpoint-dir {checkpoints}: holds a run already. Choose another folder."
        )


def _name(path: Path) -> str:
    """The name of a folder, also for a path such as `.`."""
    return Path(os.path.abspath(path)).name


def _checkpoints(config: RunConfig, path: Path) -> epath.Path:
    if not config.checkpoint_dir:
        return epath.Path(path / CHECKPOINTS)
    return storage_path(config.checkpoint_dir, "--checkpoint-dir")


def _take_dated(lock: RunLock, now: datetime) -> Path:
    """Locks a new `runs/2030-01-31_12-00-59`, with a number appended if that exists."""
    name = now.strftime("%Y-%m-%d_%H-%M-%S")
    for number in count(1):
        path = RUNS / (name if number == 1 else f"{name}_{number}")
        try:
            lock.take("--run-dir", path, new=True)
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def _take_checkpoints(lock: RunLock, config: RunConfig, folder: RunFolder) -> None:
    option = "--checkpoint-dir" if config.checkpoint_dir else "--run-dir"
    lock.take(option, folder.checkpoints)
    _make_writable(epath.Path(folder.path), "--run-dir")
    _make_writable(folder.checkpoints, option)


def _write_down(config: RunConfig, folder: RunFolder) -> None:
    try:
        write_json(folder.config, config.as_dict())
        stored = stored_identity(folder.path)
        fetched = {name: stored[name] for name in FETCHED_FROM if name in stored}
        write_json(folder.run, {**folder.identity, **fetched})
    except OSError as error:
        raise unwritable("--run-dir", folder.path, error) from error


def _check_files(folder: RunFolder) -> None:
    """Refuses a folder in which the run could not write one of its files."""
    written = (folder.config, folder.run, folder.versions, folder.metrics, folder.log)
    for file in (*written, folder.curve, folder.summary):
        usable = file.is_file() and not file.is_symlink() and os.access(file, os.R_OK | os.W_OK)
        if os.path.lexists(file) and not usable:
            raise ConfigError(f"{file}: is not a file that can be written. Rename or remove it.")
    # Only the log is appended to; the other files are replaced.
    if folder.log.exists() and folder.log.stat().st_nlink > 1:
        raise ConfigError(
            f"{folder.log}: is a hard link, and appending would change a second file. Put a copy "
            "there."
        )


def _make_writable(folder: epath.Path, option: str) -> None:
    probe = folder / f".{secrets.token_hex(4)}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Only a write is a sure test: permission bits miss mounts, quotas and buckets.
        write_whole(probe, "")
        probe.unlink()
    except OSError as error:
        raise unwritable(option, folder, error) from error
