"""A run's own folder, and what lies in it."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from etils import epath

from hackmatrix_rl.training.config import ConfigError, TrainConfig

RUNS = Path("runs")
"""Where runs are made and looked for, unless another place is named."""


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it makes.

    Attributes:
        path: the folder itself; its name is the run's id.
        checkpoints: folder of the checkpoints, in it unless chosen otherwise; may be remote.
        wandb_id: the run's id on Weights & Biases: unlike a folder's name, no other run on
            any machine has it.
        process: which of the run's processes writes; all but process 0 have a log alone.
    """

    path: Path
    checkpoints: epath.Path
    wandb_id: str
    process: int = 0

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def identity(self) -> dict[str, str]:
        """By what names the run is known."""
        return {"run_id": self.run_id, "wandb_id": self.wandb_id}

    @property
    def config(self) -> Path:
        """JSON: the settings."""
        return self.path / "config.json"

    @property
    def run(self) -> Path:
        """JSON: by what names the run is known."""
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        """One JSON object for each log interval."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """What was shown, with the time of day; each process has its own."""
        name = "log.txt" if self.process == 0 else f"log-process-{self.process}.txt"
        return self.path / name

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.path / "learning_curve.png"

    @property
    def summary(self) -> Path:
        """JSON: how the policy plays, beside random and runner."""
        return self.path / "summary.json"

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON can hold them."""
        return {
            "path": str(self.path),
            "checkpoints": str(self.checkpoints),
            "wandb_id": self.wandb_id,
        }

    @classmethod
    def seen_by(cls, process: int, told: Mapping[str, Any]) -> "RunFolder":
        """The folder as one of the run's processes has it; made where it is not there.

        Args:
            process: which.
            told: `as_dict` of process 0.
        """
        folder = cls(
            path=Path(told["path"]),
            checkpoints=epath.Path(told["checkpoints"]),
            wandb_id=told["wandb_id"],
            process=process,
        )
        folder.path.mkdir(parents=True, exist_ok=True)  # hosts may share no disk
        return folder


def make_run_folder(
    config: TrainConfig, *, now: Callable[[], datetime] = datetime.now
) -> RunFolder:
    """Makes the folder of a new run and writes its config down.

    Args:
        config: may name the folders.
        now: tells the time, for the default name; tests hand in their own.

    Raises:
        ConfigError: if a folder cannot be written, or already holds a run.
    """
    path = Path(config.run_dir) if config.run_dir else _dated(now())
    folder = RunFolder(
        path=path,
        checkpoints=_checkpoints(config, path),
        wandb_id=f"{path.name}-{secrets.token_hex(4)}",
    )
    _make_writable(epath.Path(path), "--run-dir")
    _make_writable(folder.checkpoints, "--checkpoint-dir")
    if folder.config.exists():
        raise ConfigError(
            f"--run-dir {path}: holds a run already. Choose another folder, or go on with it: "
            f"--resume-run {path}"
        )
    if any(folder.checkpoints.iterdir()):
        raise ConfigError(
            f"--checkpoint-dir {folder.checkpoints}: holds a run already. Choose another folder."
        )
    write_json(folder.config, config.as_dict())
    write_json(folder.run, folder.identity)
    return folder


def reopen_run_folder(config: TrainConfig, path: Path, identity: Mapping[str, str]) -> RunFolder:
    """Opens the folder of a run that is to go on, and writes its config down anew.

    A machine that was taken away may have taken the folder with it, while the checkpoints lay
    elsewhere: then it is made again.

    Args:
        config: to go on with.
        path: of the run.
        identity: as a checkpoint of the run tells it.

    Raises:
        ConfigError: if a folder cannot be written.
    """
    folder = RunFolder(
        path=path, checkpoints=_checkpoints(config, path), wandb_id=identity["wandb_id"]
    )
    _make_writable(epath.Path(path), "--resume-run")
    _make_writable(folder.checkpoints, "--checkpoint-dir")
    write_json(folder.config, config.as_dict())
    write_json(folder.run, folder.identity)
    return folder


def find_run_folder(run: str) -> Path | None:
    """The folder of a run, by its path, its name under `runs/`, or its wandb id.

    Args:
        run: one of these.
    """
    for place in (Path(run), RUNS / run):
        if (place / "config.json").is_file():
            return place
    for file in sorted(RUNS.glob("*/run.json")):
        if json.loads(file.read_text(encoding="utf-8")).get("wandb_id") == run:
            return file.parent
    return None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file for people to read, whole or not at all."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _checkpoints(config: TrainConfig, path: Path) -> epath.Path:
    return epath.Path(config.checkpoint_dir or path / "checkpoints")


def _dated(now: datetime) -> Path:
    """`runs/2030-01-31_12-00-59`, with a number behind it where that is taken."""
    name = now.strftime("%Y-%m-%d_%H-%M-%S")
    path, number = RUNS / name, 1
    while path.exists():
        number += 1
        path = RUNS / f"{name}_{number}"
    return path


def _make_writable(folder: epath.Path, option: str) -> None:
    probe = folder / f".{secrets.token_hex(4)}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The only sure test: permission bits say little of mounts, quotas and buckets.
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{option} {folder}: cannot be written: {error.strerror or error}. "
            "Choose another folder."
        ) from error
