"""Finds the newest or the best intact checkpoint of a run, or a pretrained agent."""

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.runs.checkpoints._hub import fetched, is_on_hub
from hackmatrix_rl.runs.checkpoints._manifest import NAME as MANIFEST
from hackmatrix_rl.runs.checkpoints._manifest import damage, not_plain
from hackmatrix_rl.runs.checkpoints._metadata import (
    METADATA,
    METADATA_1,
    is_finite,
    metadata_file,
    valid_names,
)
from hackmatrix_rl.system import read_json, storage_path, typed_path
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, NoCheckpointError, refusing

PRETRAINED = "pretrained"
"""The name of the package's agent. A version and a league may follow: `pretrained@1/no-rewind`."""

CARD = "card.json"
"""The file next to such an agent's checkpoint that describes its training."""

_FOLDER = Path(__file__).parents[2] / PRETRAINED
_NAME = re.compile(rf"({PRETRAINED}(?:@([0-9]+))?)(?:/(.*))?")


def in_league(name: str, league: str | None) -> str:
    """The full name of an agent: `pretrained` -> `pretrained/original`, by default."""
    found = _NAME.fullmatch(name)
    return f"{found[1]}/{league or LEAGUES[0]}" if found and found[3] is None else name


def split_member(name: str) -> tuple[str, int | str | None]:
    """A run and its member, as `load` takes them: `run#3` -> `run`, 3; `run#return`; `run`."""
    run, mark, member = name.rpartition("#")
    if not mark or not run or not member or os.path.exists(name):
        return name, None
    return run, int(member) if member.isascii() and member.isdecimal() else member


def shipped_checkpoint(name: str) -> Path | None:
    """The checkpoint of a pretrained agent; `None` for any other name."""
    found = _NAME.fullmatch(in_league(name, None))
    if found is None or found[3] not in LEAGUES:
        return None
    version, league = found[2], found[3]
    if version is None:  # the newest of the league; every released version stays
        version = max((each.parent.name for each in _FOLDER.glob(f"*/{league}")), key=int)
    place = _FOLDER / version / league
    return place if place.is_dir() else None


_UPDATE = re.compile("0|[1-9][0-9]*")  # names of checkpoints

Report = Callable[[str], None]


def find_checkpoint(
    run: str | Path, *, best: bool = False, report: Report = warnings.warn
) -> epath.Path:
    """The folder of the newest (or best) intact checkpoint of a run, which is given as to `load`.

    `report` gets a message about each skipped checkpoint.

    Raises:
        NoCheckpointError: the checkpoint does not exist.
        ConfigError: it cannot be used.
    """
    if is_on_hub(run):
        return fetched(str(run))
    run = typed_path(run)
    given = storage_path(run, "the checkpoint")
    shipped = shipped_checkpoint(str(run))
    if shipped is not None:
        return epath.Path(shipped)
    with refusing(f"{run}: cannot be read: ", of=OSError):
        found = _found_at(run, (given, epath.Path("runs") / run), best, report)
    if found is None:
        raise NoCheckpointError(
            f"{run}: no checkpoint there. Give a run's folder (runs/...), its name, or a "
            "checkpoint."
        )
    return found


def _found_at(
    run: str | Path, places: Sequence[epath.Path], best: bool, report: Report
) -> epath.Path | None:
    """The checkpoint of `find_checkpoint` at the first of these places that has one."""
    for place in places:
        if not place.is_dir():
            continue
        if metadata_file(place).exists():
            if (wrong := _trouble(place)) is not None:
                raise ConfigError(f"{place}: {wrong}. Give another checkpoint of the run.")
            return place
        of = _known_as(place, report)
        for folder in _folders_of(place, report):
            if (found := whole_checkpoint(folder, best, report, of=of)) is not None:
                return found
            if of is not None and (others := {*map(_wandb_id, checkpoints_in(folder))} - {of, ""}):
                raise ConfigError(
                    f"{run}: {folder} holds checkpoints of another run ({', '.join(others)}) and "
                    f"none of this run ({of})."
                )
    return None


def whole_checkpoint(
    folder: epath.Path, best: bool = False, report: Report = warnings.warn, *, of: str | None = None
) -> epath.Path | None:
    """The newest (or best) checkpoint in a folder that is neither incomplete nor damaged.

    `report` gets a message about each skipped checkpoint. With a wandb id as `of`, checkpoints of
    other runs are also skipped.
    """
    candidates = checkpoints_in(folder)[::-1]
    if best:
        candidates = sorted(candidates, key=_score, reverse=True)
    for candidate in candidates:
        wrong = _trouble(candidate) or _of_another_run(candidate, of)
        if wrong is None:
            return candidate
        report(f"{candidate}: {wrong}; it is skipped")
    return None


def checkpoints_in(folder: epath.Path) -> list[epath.Path]:
    """The checkpoints in a folder, intact or not, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _UPDATE.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name))


def run_of(folder: epath.Path) -> dict[str, str]:
    """The id and aliases of a checkpoint's run, without invalid names.

    `read_metadata` reports invalid names.
    """
    return valid_names(_metadata(folder).get("run"))


def _metadata(folder: epath.Path) -> dict[str, Any]:
    """The metadata, unchecked; empty if unreadable, which `read_metadata` reports."""
    return _informed(metadata_file(folder), lambda message: None)


def _wandb_id(folder: epath.Path) -> str:
    return run_of(folder).get("wandb_id", "")


def _of_another_run(folder: epath.Path, of: str | None) -> str | None:
    known = _wandb_id(folder)
    return f"of another run ({known}, not {of})" if of and known and known != of else None


def mean_return(folder: epath.Path) -> float | None:
    """The mean return in a checkpoint's metadata, if any."""
    counters = _metadata(folder).get("counters")
    score = counters.get("mean_return") if isinstance(counters, dict) else None
    return score if isinstance(score, int | float) and is_finite(score) else None


def _score(folder: epath.Path) -> float:
    # Sorting must not read the metadata of an incomplete checkpoint.
    score = mean_return(folder) if (folder / MANIFEST).exists() else None
    return float("-inf") if score is None else score


def _trouble(folder: epath.Path) -> str | None:
    """Why a checkpoint cannot be used, in words, or `None`."""
    return damage(folder) if has_manifest(folder) else not_plain(folder)


def has_manifest(folder: epath.Path) -> bool:
    """Whether a checkpoint must have a manifest: format 1 had none."""
    return not (folder / METADATA_1).exists() or (folder / METADATA).exists()


def _folders_of(run: epath.Path, report: Report) -> Iterator[epath.Path]:
    """The possible folders of a run's checkpoints; the one that its config names comes last."""
    yield run
    yield run / "checkpoints"
    named = _informed(run / "config.json", report).get("checkpoint_dir")
    if isinstance(named, str) and named:
        yield storage_path(named, f"{run}/config.json: checkpoint_dir")


def _known_as(run: epath.Path, report: Report) -> str | None:
    """The wandb id in a run's `run.json`, if any."""
    found = _informed(run / "run.json", report).get("wandb_id")
    return found if isinstance(found, str) else None


def _informed(file: epath.Path, report: Report) -> dict[str, Any]:
    """The content of a run's JSON file; empty if it is missing or damaged."""
    try:
        return read_json(file) or {}
    except DamagedFileError as error:
        report(f"{file}: {error}; it is skipped")
        return {}
