"""Going on with a run that was stopped."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from etils import epath
from jaxtyping import Array, Key

from hackmatrix_rl.training.checkpoints import (
    check_resumable,
    read_arrays,
    read_metadata,
    whole_checkpoint,
)
from hackmatrix_rl.training.checkpoints.reader import checkpoints_in
from hackmatrix_rl.training.config import ConfigError, TrainConfig
from hackmatrix_rl.training.run_folder import RUNS, find_run_folder
from hackmatrix_rl.training.settings import config_from_dict
from hackmatrix_rl.training.trainer import Trainer


@dataclass(frozen=True)
class Stopped:
    """A run that can go on.

    Attributes:
        path: the run's folder; it may be gone.
        checkpoint: to go on from: the newest that is whole.
        damaged: checkpoints that are newer, but cannot be used.
        metadata: of the checkpoint.
        notes: what people should know, in lines.
    """

    path: Path
    checkpoint: epath.Path
    damaged: tuple[epath.Path, ...]
    metadata: Mapping[str, Any]
    notes: tuple[str, ...]

    def config(self, changes: Mapping[str, Any]) -> TrainConfig:
        """The run's settings with some changed.

        Args:
            changes: fields of `TrainConfig`.

        Raises:
            ConfigError: if a value cannot work.
        """
        return config_from_dict({**self.metadata["config"], **changes})

    @property
    def update(self) -> int:
        """Number of updates done at the checkpoint."""
        return int(self.metadata["update"])

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON can hold them."""
        return {
            "path": str(self.path),
            "checkpoint": str(self.checkpoint),
            "damaged": [str(folder) for folder in self.damaged],
            "metadata": dict(self.metadata),
            "notes": list(self.notes),
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Stopped":
        """What `as_dict` told, possibly in another process."""
        return cls(
            path=Path(told["path"]),
            checkpoint=epath.Path(told["checkpoint"]),
            damaged=tuple(epath.Path(folder) for folder in told["damaged"]),
            metadata=told["metadata"],
            notes=tuple(told["notes"]),
        )

    def set_damaged_aside(self) -> None:
        """Renames what cannot be used, so that it is neither lost nor in the way."""
        for folder in self.damaged:
            aside, number = folder.with_name(f"{folder.name}.damaged"), 1
            while aside.exists():
                number += 1
                aside = folder.with_name(f"{folder.name}.damaged_{number}")
            folder.rename(aside)


def find_stopped_run(run: str, checkpoint_dir: str | None = None) -> Stopped:
    """Finds a run and its newest whole checkpoint.

    Args:
        run: the run's folder, its name under `runs/`, or its wandb id.
        checkpoint_dir: where its checkpoints are, if its folder is gone and cannot tell.

    Raises:
        ConfigError: if there is no such run or no checkpoint to go on from.
    """
    path = find_run_folder(run)
    if path is None and checkpoint_dir is None:
        raise ConfigError(
            f"--resume-run {run}: no such run. Give a run's folder, its name under {RUNS}/ or its "
            "wandb run id; with --checkpoint-dir too, if the folder is gone."
        )
    folder = _checkpoint_folder(path, checkpoint_dir)
    notes: list[str] = []
    checkpoint = whole_checkpoint(folder, report=notes.append)
    if checkpoint is None:
        passed = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError(
            f"--resume-run {run}: no checkpoint to go on from in {folder}{passed}. Start anew "
            "with another --run-dir."
        )
    metadata = read_metadata(checkpoint)
    check_resumable(checkpoint, metadata)
    newer = [each for each in checkpoints_in(folder) if int(each.name) > int(checkpoint.name)]
    return Stopped(
        path=RUNS / metadata["run"]["run_id"] if path is None else path,
        checkpoint=checkpoint,
        damaged=tuple(newer),
        metadata=metadata,
        notes=tuple(notes),
    )


def restore_training(
    trainer: Trainer, checkpoint: epath.Path, *, key: Key[Array, ""]
) -> tuple[str, ...]:
    """Puts a trainer where a checkpoint left off.

    Parameters, optimizer and counters must fit. Games go on where they stood if their number
    and sizes are the same; otherwise fresh ones begin, unlike any that the run has begun
    before.

    Args:
        trainer: composed, not started.
        checkpoint: to go on from.
        key: of the run's training; what fresh games are drawn from.

    Returns:
        What could not be taken over, in lines for people.

    Raises:
        ConfigError: if the checkpoint's arrays do not fit the trainer's modules.
    """
    stored = read_arrays(checkpoint, "training")
    update = int(read_metadata(checkpoint)["update"])
    # Fresh games, where they are needed, differ from those that the first update began.
    trainer.start(jax.random.fold_in(key, update))
    fresh = trainer.state
    notes: list[str] = []

    names = [name for name in vars(fresh) if name != "actors"]
    if stored.under(".actors").misfit(fresh.actors) is None:
        names.append("actors")
    else:
        notes.append("the games' number or sizes changed: fresh games begin")
    filled = []
    for name in names:
        part, like = stored.under(f".{name}"), getattr(fresh, name)
        if (wrong := part.misfit(like)) is not None:
            raise ConfigError(
                f"{checkpoint}: not of this network and these settings: in {name}, {wrong}."
            )
        filled.append(part.fill(like))
    trainer.state = eqx.tree_at(
        lambda state: [getattr(state, name) for name in names], fresh, filled
    )
    return tuple(notes)


def _checkpoint_folder(path: Path | None, checkpoint_dir: str | None) -> epath.Path:
    """Where a run's checkpoints are: as said, as its config says, or in its folder."""
    if checkpoint_dir is not None:
        return epath.Path(checkpoint_dir)
    assert path is not None  # looked for before
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return epath.Path(config.get("checkpoint_dir") or path / "checkpoints")
