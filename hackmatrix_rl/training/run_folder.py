"""A run's own folder, and what lies in it."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hackmatrix_rl.training.config import ConfigError, TrainConfig


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it makes.

    Attributes:
        path: the folder itself; its name is the run's id.
        checkpoints: folder of the checkpoints, in it unless chosen otherwise.
    """

    path: Path
    checkpoints: Path

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def config(self) -> Path:
        """JSON: the settings."""
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        """One JSON object for each log interval."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """What was shown, with the time of day."""
        return self.path / "log.txt"

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.path / "learning_curve.png"

    @property
    def summary(self) -> Path:
        """JSON: how the policy plays, beside random and runner."""
        return self.path / "summary.json"


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
    checkpoints = Path(config.checkpoint_dir) if config.checkpoint_dir else path / "checkpoints"
    _make_writable(path, "--run-dir")
    _make_writable(checkpoints, "--checkpoint-dir")
    folder = RunFolder(path=path, checkpoints=checkpoints)
    for taken, option in ((folder.config, "--run-dir"), (checkpoints, "--checkpoint-dir")):
        if taken.is_file() or (taken.is_dir() and any(taken.iterdir())):
            raise ConfigError(
                f"{option} {taken.parent if taken.is_file() else taken}: holds a run already. "
                "Choose another folder."
            )
    write_json(folder.config, config.as_dict())
    return folder


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file for people to read, whole or not at all."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _dated(now: datetime) -> Path:
    """`runs/2030-01-31_12-00-59`, with a number behind it where that is taken."""
    name = now.strftime("%Y-%m-%d_%H-%M-%S")
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}_{number}"
    return path


def _make_writable(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The only sure test: permission bits say little of mounts and quotas.
        handle, name = tempfile.mkstemp(dir=folder)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise ConfigError(
            f"{option} {folder}: cannot be written: {error.strerror or error}. "
            "Choose another folder."
        ) from error
