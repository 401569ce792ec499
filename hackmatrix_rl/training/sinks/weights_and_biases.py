"""Metrics on Weights & Biases."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hackmatrix_rl.training.config import ConfigError
from hackmatrix_rl.training.sinks.sink import Row, Sink


class WeightsAndBiases(Sink):
    """Logs each row, by environment steps. The library is imported only when this is made.

    Args:
        project: the project there.
        run_id: name and id of the run.
        folder: where the library keeps its own files.
        config: settings to store with the run.

    Raises:
        ConfigError: if the service refuses (no login, no network).
    """

    def __init__(
        self, *, project: str, run_id: str, folder: Path, config: Mapping[str, Any]
    ) -> None:
        import wandb  # seconds to import, and rarely asked for

        try:
            self._run = wandb.init(
                project=project, id=run_id, name=run_id, dir=str(folder), config=dict(config)
            )
        except wandb.Error as error:
            raise ConfigError(
                f"--wandb: {error} Log in with `wandb login`, or set WANDB_MODE=offline."
            ) from error

    def write(self, row: Row) -> None:
        """Logs the numbers that are known."""
        known = {name: value for name, value in row.items() if math.isfinite(value)}
        self._run.log(known, step=int(row["env_steps"]))

    def note(self, message: str) -> None:
        """Keeps nothing: the library records the terminal itself."""

    def close(self) -> None:
        """Waits until everything is sent."""
        self._run.finish()
