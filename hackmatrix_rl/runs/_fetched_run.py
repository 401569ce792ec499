"""Fetches the checkpoint of a run from Weights & Biases, to resume the run here."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from etils import epath

from hackmatrix_rl.runs._folder import FETCHED_FROM, RUNS, run_folders, stored_identity
from hackmatrix_rl.runs._lock import RunLock
from hackmatrix_rl.runs.checkpoints import (
    check_resumable,
    find_checkpoint,
    read_metadata,
    valid_names,
    whole_checkpoint,
)
from hackmatrix_rl.runs.sinks import ARTIFACT, artifact_name
from hackmatrix_rl.system import format_bytes, read_json, set_aside, within, write_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, shortened

PREFIX = "wandb:"
"""The prefix of the names of such runs: `wandb:ENTITY/PROJECT/RUN_ID`."""

_TRIED = 3  # versions, the newest first
_MOST_FILES = 10_000
_SECONDS = 30  # until the service must answer


@dataclass(frozen=True)
class _Named:
    """A run on Weights & Biases as the user named it."""

    said: str
    entity: str | None
    project: str
    run_id: str

    @classmethod
    def of(cls, run: str) -> "_Named":
        """Parses `wandb:ENTITY/PROJECT/RUN_ID`, or the same without the entity."""
        said = f"--resume-run {shortened(run)}"
        named = run.removeprefix(PREFIX).split("/")
        if len(named) not in (2, 3) or "" in named or not valid_names({"wandb_id": named[-1]}):
            raise ConfigError(
                f"{said}: is not the name of a run. Write {PREFIX}ENTITY/PROJECT/RUN_ID, as in its "
                "address."
            )
        return cls(said, named[0] if len(named) == 3 else None, *named[-2:])

    @property
    def artifact(self) -> str:
        """The name of the artifact with its checkpoints."""
        owner = [] if self.entity is None else [self.entity]
        return "/".join([*owner, self.project, artifact_name(self.run_id)])

    @property
    def place(self) -> dict[str, str]:
        """The entity and the project, as `run.json` stores them with the id."""
        pairs = zip(FETCHED_FROM, (self.entity, self.project), strict=True)
        return {name: value for name, value in pairs if value is not None}

    def is_in(self, folder: Path, default: str | None) -> bool:
        """Whether a folder belongs to this run, by its id, project and entity.

        A run without an entity belongs to the `default` one.
        """
        names = stored_identity(folder)
        projects: list[Any] = [names.get("wandb_project")]
        with suppress(DamagedFileError):  # resuming writes it again
            projects.append((read_json(folder / "config.json") or {}).get("wandb_project"))
        return (
            names.get("wandb_id") == self.run_id
            and (self.project in projects or projects.count(None) == len(projects))
            and names.get("wandb_entity", default) == (self.entity or default)
        )


def fetch_run(
    run: str,
    *,
    note: Callable[[str], None],
    lock: RunLock,
    prepare: Callable[[Mapping[str, Any]], None] = lambda settings: None,
) -> str:
    """Fetches the newest intact checkpoint of a run on Weights & Biases; returns the run's folder.

    The folder is the run's existing one under `runs/`, or a new one. Folders of other runs stay
    unchanged. Nothing is fetched if the existing folder has a checkpoint that is as new. A fetched
    checkpoint is checked like any other before it is moved into the folder.

    Args:
        run: `wandb:ENTITY/PROJECT/RUN_ID`, or without the entity.
        note: takes messages for the user.
        lock: locks the existing folder.
        prepare: takes the settings of a checkpoint, unchecked, before a device starts.
    """
    named = _Named.of(run)
    if os.path.lexists(RUNS) and not RUNS.is_dir():
        raise ConfigError(
            f"{named.said}: would be fetched into the folder {RUNS}, but {RUNS} is not a folder. "
            "Rename it, or change to another directory."
        )
    alike = [
        each for each in run_folders() if stored_identity(each).get("wandb_id") == named.run_id
    ]
    default, versions = _versions(named, whose=bool(alike))
    own = {each: _newest(each) for each in alike if named.is_in(each, default)}
    folder = max(own, key=lambda each: own[each], default=None)
    there = -1 if folder is None else own[folder]
    if folder is not None:
        lock.take("--resume-run", folder)
    wrong = []
    for version in versions[:_TRIED]:
        update = dict(version.metadata or {}).get("update")
        if type(update) is int and update <= there:
            note(f"{folder}: has update {there:,}, as new as on Weights & Biases")
            return str(folder)
        try:
            place = _fetch(version, named, folder, newer_than=there, prepare=prepare)
        except ConfigError as error:
            wrong.append(str(error))
            note(f"{named.said}: {version.name}: {error}; it is skipped")
            continue
        note(f"{version.name}: fetched from Weights & Biases into {place}")
        return str(place)
    why = f": {wrong[0]}" if wrong else ""
    raise ConfigError(
        f"{named.said}: no checkpoint there can be used{why}. train --wandb-artifacts keeps them."
    )


def _newest(folder: Path) -> int:
    """The update of the newest intact checkpoint in a run's folder; -1 without one."""
    found = whole_checkpoint(epath.Path(folder / "checkpoints"), report=lambda line: None)
    return -1 if found is None else int(found.name)


def _versions(named: _Named, *, whose: bool) -> tuple[str | None, list[Any]]:
    """The user's default entity (only with `whose`), and a run's checkpoints, newest first."""
    import wandb  # takes seconds to import, and few runs use it

    def ask() -> tuple[str | None, list[Any]]:
        service = wandb.Api(timeout=_SECONDS)
        found = list(service.artifacts(ARTIFACT, named.artifact))
        return service.default_entity if whose else None, found

    try:
        # The library retries for a minute if its service does not answer.
        default, found = within(_SECONDS, ask)
        numbers = {id(each): int(str(each.version).removeprefix("v")) for each in found}
    except Exception as error:  # any error of the library or the service is reported
        why = " ".join(f"{error}".split())[:200].rstrip(".")
        raise ConfigError(
            f"{named.said}: Weights & Biases says: {why}. Log in with `wandb login`, and name the "
            "run as in its address; train --wandb-artifacts keeps its checkpoints there."
        ) from error
    return default, sorted(found, key=lambda each: numbers[id(each)], reverse=True)


def _fetch(
    version: Any,
    named: _Named,
    folder: Path | None,
    *,
    newer_than: int,
    prepare: Callable[[Mapping[str, Any]], None],
) -> Path:
    """Downloads a checkpoint, checks it, and moves it into the run's folder, which it returns."""
    try:
        RUNS.mkdir(exist_ok=True)
        # On the same disk as its destination, because a rename there is atomic.
        waiting = Path(tempfile.mkdtemp(prefix=".fetching-", dir=RUNS))
    except OSError as error:
        raise ConfigError(f"cannot be stored: {error}") from error
    try:
        try:
            _check_listed(version)
            version.download(root=str(waiting / "checkpoint"))
        except ConfigError:
            raise
        except Exception as error:  # any error of the library or the service is reported
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ConfigError(f"cannot be downloaded: {said}") from error
        found = find_checkpoint(waiting / "checkpoint", report=lambda line: None)
        metadata = read_metadata(found)
        prepare(metadata["config"])
        check_resumable(found, metadata)
        if metadata.get("run", {}).get("wandb_id") != named.run_id:
            raise ConfigError("is a checkpoint of another run")
        if folder is None:
            return _in_new_folder(waiting, Path(found), metadata, named)
        # The artifact's metadata may name another update: never replace an intact checkpoint.
        if metadata["update"] > newer_than:
            _into_own_folder(folder, Path(found), metadata["update"])
    except OSError as error:
        raise ConfigError(f"cannot be stored: {error}") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(waiting)
    return folder


def _in_new_folder(
    waiting: Path, checkpoint: Path, metadata: Mapping[str, Any], named: _Named
) -> Path:
    """Moves a checkpoint into a new folder with the first free name."""
    made = waiting / "run"
    (made / "checkpoints").mkdir(parents=True)
    checkpoint.rename(made / "checkpoints" / str(metadata["update"]))
    first = metadata["run"].get("run_id") or named.run_id
    more = (f"{named.run_id}_{number}" for number in itertools.count(2))
    for name in itertools.chain([first, named.run_id], more):
        if not os.path.lexists(place := RUNS / name):
            names = {"run_id": name, "wandb_id": named.run_id, **named.place}
            write_json(made / "run.json", names)
            made.rename(place)
            return place
    raise AssertionError("numbers do not end")


def _into_own_folder(folder: Path, checkpoint: Path, update: int) -> None:
    """Moves a checkpoint into the run's folder, which has no intact one of this update."""
    place = folder / "checkpoints" / str(update)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"does not go into {place.parent}, a link out of the run's folder")
    if os.path.lexists(place):
        set_aside(place)
    checkpoint.rename(place)


def _check_listed(version: Any) -> None:
    """Refuses an artifact with files outside of it, too many files, or too large ones."""
    files = version.manifest.entries
    for name, entry in files.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ConfigError(f"{shortened(repr(name))} leads out of the checkpoint")
        if getattr(entry, "ref", None):
            raise ConfigError(f"{shortened(repr(name))} is elsewhere, not in the artifact")
    if len(files) > _MOST_FILES:
        raise ConfigError(f"has {len(files):,} files, more than {_MOST_FILES:,}")
    free = shutil.disk_usage(Path.cwd()).free
    if version.size > free:
        raise ConfigError(f"has {format_bytes(version.size)}, and {format_bytes(free)} are free")
