"""A run whose checkpoints are on Weights & Biases, fetched to be resumed here."""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from etils import epath

from hackmatrix_rl.checkpoints import (
    check_resumable,
    find_checkpoint,
    read_metadata,
    valid_names,
    whole_checkpoint,
)
from hackmatrix_rl.errors import ConfigError, shortened
from hackmatrix_rl.runs._folder import RUNS, run_folders, stored_identity
from hackmatrix_rl.runs.sinks import ARTIFACT, artifact_name
from hackmatrix_rl.system import format_bytes, set_aside, within

PREFIX = "wandb:"
"""What the names of such runs begin with: `wandb:ENTITY/PROJECT/RUN_ID`."""

_TRIED = 3  # versions, the newest first
_MOST_FILES = 10_000
_SECONDS = 30  # for an answer of the service


def fetch_run(run: str, *, note: Callable[[str], None]) -> str:
    """The folder of a run on Weights & Biases, with its newest whole checkpoint in there.

    The folder is the run's own under `runs/`. If that holds a checkpoint as new, nothing is
    fetched. A checkpoint goes through the checks of every other one before it has its place.

    Args:
        run: `wandb:ENTITY/PROJECT/RUN_ID`, or without the entity.
        note: takes lines for people.

    Raises:
        ConfigError: there is no such run, its checkpoints cannot be used, or the service refuses.
    """
    said = f"--resume-run {shortened(run)}"
    *project, run_id = run.removeprefix(PREFIX).split("/")
    named = [*project, run_id]
    if len(named) not in (2, 3) or "" in named or not valid_names({"wandb_id": run_id}):
        raise ConfigError(
            f"{said}: is no run there. Write {PREFIX}ENTITY/PROJECT/RUN_ID, as in its address."
        )
    # By its id alone: a name may be that of another folder here.
    own = (each for each in run_folders() if stored_identity(each).get("wandb_id") == run_id)
    folder = next(own, None)
    there = None if folder is None else _newest(folder)
    versions = _versions(said, "/".join([*project, artifact_name(run_id)]))
    wrong = []
    for version in versions[:_TRIED]:
        update = dict(version.metadata or {}).get("update")
        if there is not None and type(update) is int and update <= there:
            note(f"{folder}: has update {there:,}, as new as on Weights & Biases")
            return str(folder)
        try:
            place = _fetch(version, run_id, folder)
        except ConfigError as error:
            wrong.append(str(error))
            note(f"{said}: {version.name}: {error}; it is skipped")
            continue
        note(f"{version.name}: fetched from Weights & Biases into {place}")
        return str(place)
    why = f": {wrong[0]}" if wrong else ""
    raise ConfigError(
        f"{said}: no checkpoint there can be used{why}. train --wandb-artifacts keeps them."
    )


def _newest(folder: Path) -> int | None:
    """The update of the newest whole checkpoint in a run's folder."""
    found = whole_checkpoint(epath.Path(folder / "checkpoints"), report=lambda line: None)
    return None if found is None else int(found.name)


def _versions(said: str, name: str) -> list[Any]:
    """The artifacts of a run's checkpoints, the newest first."""
    import wandb  # takes seconds to import, and few runs use it

    try:
        # The library tries again for a minute where its service does not answer.
        found = within(
            _SECONDS, lambda: list(wandb.Api(timeout=_SECONDS).artifacts(ARTIFACT, name))
        )
        numbers = {id(each): int(str(each.version).removeprefix("v")) for each in found}
    except Exception as error:  # any error of the library or the service: told
        why = " ".join(f"{error}".split())[:200].rstrip(".")
        raise ConfigError(
            f"{said}: Weights & Biases says: {why}. Log in with `wandb login`, and name the run as "
            "in its address; train --wandb-artifacts keeps its checkpoints there."
        ) from error
    return sorted(found, key=lambda each: numbers[id(each)], reverse=True)


def _fetch(version: Any, run_id: str, folder: Path | None) -> Path:
    """Downloads a checkpoint, checks it, and puts it into the run's folder, which is returned."""
    RUNS.mkdir(exist_ok=True)
    # On the same disk as its place: a rename puts it there whole or not at all.
    waiting = Path(tempfile.mkdtemp(prefix=".fetching-", dir=RUNS))
    try:
        try:
            _check_listed(version)
            version.download(root=str(waiting / "checkpoint"))
        except ConfigError:
            raise
        except Exception as error:  # any error of the library or the service: told
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ConfigError(f"cannot be downloaded: {said}") from error
        found = find_checkpoint(waiting / "checkpoint", report=lambda line: None)
        metadata = read_metadata(found)
        check_resumable(found, metadata)
        if metadata.get("run", {}).get("wandb_id") != run_id:
            raise ConfigError("is a checkpoint of another run")
        if folder is None:
            own = RUNS / (metadata["run"].get("run_id") or run_id)
            folder = own if not own.exists() else RUNS / run_id
        place = folder / "checkpoints" / str(metadata["update"])
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"does not go into {place.parent}, a link out of the run's folder")
        if os.path.lexists(place):  # not whole, or nothing would have been fetched
            set_aside(place)
        Path(found).rename(place)
    except OSError as error:
        raise ConfigError(f"cannot be stored: {error}") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(waiting)
    return folder


def _check_listed(version: Any) -> None:
    """Refuses to download what is no checkpoint: a file elsewhere, too many or too large ones."""
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
