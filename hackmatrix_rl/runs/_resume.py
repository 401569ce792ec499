"""Finds a run to resume, and restores its training."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any

import equinox as eqx
import jax
from etils import epath
from jaxtyping import Array, Key

from hackmatrix_rl.runs._folder import RUNS, find_run_folder, new_wandb_id, stored_identity
from hackmatrix_rl.runs._lock import RunLock, check_links
from hackmatrix_rl.runs.checkpoints import (
    check_resumable,
    checkpoints_in,
    read_arrays,
    read_metadata,
    run_of,
    whole_checkpoint,
)
from hackmatrix_rl.runs.config import (
    RunConfig,
    check_trusted,
    config_from_dict,
    following,
    rename,
    stored_line,
)
from hackmatrix_rl.system import check_path, read_json, set_aside, storage_path, typed_path
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, in_shell
from hackmatrix_rl.training import Stored, Trainer, empty_parts, new_games_note


@dataclass(frozen=True)
class ResumableRun:
    """A run that can be resumed; its folder, `path`, may be missing.

    `checkpoint` is the newest intact one; with `None`, the run ended before its first one and
    starts over. `damaged` are newer, unusable ones. `metadata` belongs to the checkpoint; without
    one, it holds the settings and the run's names.
    """

    path: Path
    checkpoints: epath.Path
    checkpoint: epath.Path | None
    damaged: tuple[epath.Path, ...]
    metadata: Mapping[str, Any]
    notes: tuple[str, ...]

    def config(self, changes: Mapping[str, Any]) -> RunConfig:
        """The run's settings with some changes.

        New checkpoints go where the old ones were found, not where the stored settings say, because
        a run from another person must not choose one of the user's folders.
        """
        inside = self.checkpoints == epath.Path(self.path / "checkpoints")
        elsewhere = typed_path(self.checkpoints, lasting=True)
        place = {"checkpoint_dir": None if inside else elsewhere}
        return config_from_dict(_changed(self.metadata["config"], {**place, **changes}))

    def check_command(self, command: str) -> None:
        """Refuses a run that another command began."""
        other = self.config({}).command
        if other != command:
            raise ConfigError(
                f"--resume-run {self.path}: begun by hackmatrix-rl {other}. Resume it with "
                f"{in_shell('hackmatrix-rl', other, '--resume-run', self.path)}"
            )

    def check_trusted(self, changes: Mapping[str, Any], *, trust_code: bool) -> None:
        """Refuses to import code that the run names, unless the user trusts it.

        Code that the user names among the changes needs no trust.
        """
        source = self.checkpoint or self.path / "config.json"
        for stage in self.config(changes).stages:
            check_trusted(stage, source, trust_code=trust_code, named=changes.keys())

    @property
    def update(self) -> int:
        """Number of updates at the checkpoint."""
        return 0 if self.checkpoint is None else int(self.metadata["update"])

    def as_dict(self) -> dict[str, Any]:
        """The fields in a form for JSON."""
        return {
            "path": str(self.path),
            "checkpoints": str(self.checkpoints),
            "checkpoint": self.checkpoint and str(self.checkpoint),
            "damaged": [str(folder) for folder in self.damaged],
            "metadata": dict(self.metadata),
            "notes": list(self.notes),
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "ResumableRun":
        """The run from the result of `as_dict`, perhaps of another process."""
        return cls(
            path=Path(fields["path"]),
            checkpoints=epath.Path(fields["checkpoints"]),
            checkpoint=fields["checkpoint"] and epath.Path(fields["checkpoint"]),
            damaged=tuple(epath.Path(folder) for folder in fields["damaged"]),
            metadata=fields["metadata"],
            notes=tuple(fields["notes"]),
        )

    def set_damaged_aside(self) -> None:
        """Renames damaged checkpoints, which keeps them and frees their names."""
        for folder in self.damaged:
            set_aside(folder)


def _changed(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes, also in each later stage that has these settings."""
    changed = {**stored, **following(stored, changes), **changes}
    if isinstance(then := stored.get("then"), dict):
        own = {name: value for name, value in changes.items() if name in then}
        own.pop("total_timesteps", None)  # the length of this stage
        changed["then"] = _changed(then, own)
    return changed


def find_resumable_run(
    run: str,
    checkpoint_dir: str | None = None,
    *,
    lock: RunLock | None = None,
    prepare: Callable[[Mapping[str, Any]], None] = lambda settings: None,
) -> ResumableRun:
    """Finds a run and its newest intact checkpoint.

    A run that ended before its first checkpoint restarts from its stored settings. If its folder is
    missing, `checkpoint_dir` must be given. `lock` locks the run's folders before a checkpoint is
    chosen. `prepare` takes the stored settings, unchecked, before a device starts.
    """
    check_path(run, "--resume-run")
    path = find_run_folder(run)
    if path is None and checkpoint_dir is None:
        raise ConfigError(
            f"--resume-run {run}: no such run. Give a run's folder, its name under {RUNS}/ or its "
            "wandb run id; with --checkpoint-dir too, if the folder is missing."
        )
    if path is not None:
        check_links(path, f"--resume-run {run}", checkpoints=checkpoint_dir is None)
    folder = _checkpoints_of(path, checkpoint_dir)
    if path is None:
        path = RUNS / _run_in(folder, run)
    if lock is not None:
        lock.take("--resume-run", path)
        lock.take("--checkpoint-dir" if checkpoint_dir else "--resume-run", folder)
    notes: list[str] = []
    checkpoint = whole_checkpoint(folder, report=notes.append)
    source: PurePath
    if checkpoint is not None:
        source, metadata = checkpoint, read_metadata(checkpoint)
    else:
        source = path / "config.json"
        metadata = {"config": _settings_to_start_with(path, folder, run, notes)}
        notes.append(f"{path}: has no checkpoint yet; the run starts over")
    prepare(metadata["config"])
    if checkpoint is not None:
        check_resumable(checkpoint, metadata)
    settings, old_names = rename(metadata["config"], source=str(source))
    if old_names:
        notes.append(stored_line(source, old_names))
    if checkpoint_dir is None:
        _check_own(path, folder, metadata)
    wandb_id = stored_identity(path).get("wandb_id") or metadata.get("run", {}).get("wandb_id")
    if wandb_id is None:
        wandb_id = new_wandb_id(path)
        notes.append(f"{source}: has no wandb id; the run is {wandb_id} from here on")
    _refuse_others(folder, wandb_id)
    reached = -1 if checkpoint is None else int(checkpoint.name)
    names = {"run_id": path.name, "wandb_id": wandb_id}
    newer = [each for each in checkpoints_in(folder) if int(each.name) > reached]
    return ResumableRun(
        path=path,
        checkpoints=folder,
        checkpoint=checkpoint,
        damaged=tuple(newer),
        metadata={**metadata, "config": settings, "run": names},
        notes=tuple(notes),
    )


def restore_training(
    trainer: Trainer[Any],
    checkpoint: epath.Path,
    *,
    key: Key[Array, "*members"],
    other_rewards: bool = False,
) -> tuple[str, ...]:
    """Restores a trainer's state from a checkpoint; returns messages about what was not restored.

    Parameters, optimizer and counters must fit. Games continue if the checkpoint holds them, and
    their number and sizes are the same. Otherwise new games start, different from all earlier games
    of the run, and the bank of `StartStates` is lost. `other_rewards` says that the
    reward has changed; stored data to learn from, such as a replay buffer, is then discarded.
    """
    metadata = read_metadata(checkpoint)
    config_from_dict(metadata["config"]).check_algorithm(trainer.algorithm, checkpoint)
    stored = read_arrays(checkpoint, "training")
    update = int(metadata["update"])
    # New games must differ from the games of the first update.
    folded = jax.random.fold_in if key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
    trainer.start(folded(key, update))
    fresh = trainer.state
    stored = stored.named_as(fresh)
    notes: list[str] = []

    reinit_fields = trainer.algorithm.reinit_fields
    gone = not trainer.environment.pure
    # A part that these settings switch off, such as the teacher, is not restored.
    wanted = [name for name, part in vars(fresh).items() if part is not None]
    names = [name for name in wanted if name not in reinit_fields]
    for name in reinit_fields:
        whole = name.partition(".")[0]
        if whole in names:
            continue
        rest = empty_parts(fresh, whole, reinit_fields)
        spoiled = gone or (other_rewards and whole == name and rest)
        if not spoiled and stored.under(f".{name}").mismatch(attrgetter(name)(fresh)) is None:
            names.append(name)
            if whole != name:
                notes[-1] = f"the games continue; {rest} begins empty"
        elif whole == name:
            also = f", and {rest} begins empty" if rest else ""
            notes.append(
                new_games_note(fresh, reinit_fields) if gone else _new_games(stored) + also
            )
    filled = []
    for name in names:
        part, like = stored.under(f".{name}"), attrgetter(name)(fresh)
        if (wrong := part.mismatch(like)) is not None:
            raise ConfigError(
                f"{checkpoint}: not of this network and these settings: in {name}, {wrong}."
            )
        filled.append(part.fill(like))
    trainer.state = eqx.tree_at(
        lambda state: [attrgetter(name)(state) for name in names], fresh, filled
    )
    return tuple(notes)


def _new_games(stored: Stored) -> str:
    """Why new games start, and whether start states are lost."""
    note = "the games' number, sizes, reward or starts changed: new games start"
    had = any(".environment.bank" in name for name in stored.arrays)
    return f"{note}; the bank of start states is lost" if had else note


def _checkpoints_of(path: Path | None, checkpoint_dir: str | None) -> epath.Path:
    """A run's checkpoint folder: `checkpoint_dir`, or that in its config, or the default."""
    if checkpoint_dir is not None:
        return storage_path(checkpoint_dir, "--checkpoint-dir")
    assert path is not None, "the run has a folder, or the user names its checkpoint folder"
    try:
        named = (read_json(path / "config.json") or {}).get("checkpoint_dir")
    except DamagedFileError:  # written again when the folder is opened
        named = None
    if not isinstance(named, str) or not named:
        return epath.Path(path / "checkpoints")
    return storage_path(named, f"{path}/config.json: checkpoint_dir")


def _settings_to_start_with(
    path: Path, checkpoints: epath.Path, run: str, notes: Sequence[str]
) -> dict[str, Any]:
    """The stored settings of a run that ended before its first checkpoint and has not trained."""
    rows = path / "metrics.jsonl"
    # The checkpoint of update 0 is complete before the first row.
    trained = rows.exists() and rows.stat().st_size > 0
    settings = None
    if not trained and not any(int(each.name) for each in checkpoints_in(checkpoints)):
        with suppress(DamagedFileError):
            settings = read_json(path / "config.json")
    if settings is None:
        passed = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError(
            f"--resume-run {run}: no checkpoint to resume from in {checkpoints}{passed}. Give "
            "--checkpoint-dir if they are elsewhere, or start again with another --run-dir."
        )
    return settings


def _check_own(path: Path, folder: epath.Path, metadata: Mapping[str, Any]) -> None:
    """Refuses checkpoints in another folder, if only `config.json` names that folder."""
    if Path(folder).resolve().is_relative_to(path.resolve()):
        return
    run = metadata.get("run", {})
    if run.get("wandb_id") is None or run["wandb_id"] != stored_identity(path).get("wandb_id"):
        whose = f"those are of the run {run['run_id']!r}" if "run_id" in run else "none is there"
        raise ConfigError(
            f"--resume-run {path}: its config.json names {folder} for its checkpoints, "
            f"but {whose}, and no id links it to this run. If you want that folder, give it: "
            f"{in_shell('--checkpoint-dir', folder)}"
        )


def _run_in(folder: epath.Path, run: str) -> str:
    """The name of the run in a checkpoint folder; it must be the given run."""
    known = [(each, names) for each in checkpoints_in(folder) if (names := run_of(each))]
    if not known:
        raise ConfigError(
            f"--resume-run {run}: no such run, and --checkpoint-dir {folder} holds no checkpoint "
            "that names its run."
        )
    newest, names = known[-1]
    read_metadata(newest)  # refuses invalid names
    if "run_id" not in names:
        raise ConfigError(
            f"--checkpoint-dir {folder}: {newest.name} does not name its run. Give the run's "
            "folder as --resume-run."
        )
    if not {run, Path(run).name} & set(names.values()):
        raise ConfigError(
            f"--checkpoint-dir {folder}: holds checkpoints of the run {names.get('run_id')} (id "
            f"{names.get('wandb_id')}), not of {run}. Give its own, or --resume-run "
            f"{names.get('run_id')}."
        )
    return names["run_id"]


def _refuse_others(folder: epath.Path, wandb_id: str) -> None:
    for each in checkpoints_in(folder):
        if (other := run_of(each).get("wandb_id", wandb_id)) != wandb_id:
            raise ConfigError(
                f"--checkpoint-dir {folder}: {each.name} is a checkpoint of another run ({other}), "
                f"not of {wandb_id}. Move one of them elsewhere."
            )
