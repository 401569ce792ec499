"""Metrics on Weights & Biases."""

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hackmatrix_rl.errors import (
    ConfigError,
)
from hackmatrix_rl.runs.sinks._sink import (
    Row,
    Sink,
)
from hackmatrix_rl.system import wandb_timeouts, within

_SLACK = 10.0  # seconds for the library to start, and to end


class WeightsAndBiases(Sink):
    """Logs each row, by environment steps. The constructor imports the library.

    A run with the same id continues. Rows that a resumed run logs again do no harm: the service
    draws them over environment steps, which may go back.

    Args:
        project: name of the project.
        run_id: id of the run, unique in the project.
        name: name of the run, for people.
        folder: folder of the library's files.
        config: settings to store with the run.
        mode: `online`, or `offline` to keep everything in the folder.
        patience: seconds to wait for the service at the start, and again at the end.

    Raises:
        ConfigError: the service refuses (no login, no network).
    """

    def __init__(
        self,
        *,
        project: str,
        run_id: str,
        name: str,
        folder: Path,
        config: Mapping[str, Any],
        mode: Literal["online", "offline"] = "online",
        patience: float = 30.0,
    ) -> None:
        import wandb  # takes seconds to import, and few runs use it

        self._patience = patience
        timeouts = wandb_timeouts(wandb.Settings, seconds=patience)
        try:
            self._run = within(
                _SLACK + patience,
                partial(
                    wandb.init,
                    project=project,
                    id=run_id,
                    name=name,
                    dir=str(folder),
                    config=dict(config),
                    mode=mode,
                    resume="allow",
                    settings=wandb.Settings(**timeouts),
                ),
            )
        except (wandb.Error, TimeoutError) as error:
            _let_go()
            said = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(
                f"--wandb: {said}. Log in with `wandb login`, or use --wandb-mode offline."
            ) from error
        # The library's own steps must grow, but a resumed run goes back to its checkpoint.
        self._run.define_metric("env_steps")
        self._run.define_metric("*", step_metric="env_steps")

    def write(self, row: Row) -> None:
        """Logs the finite numbers."""
        self._run.log({name: value for name, value in row.items() if math.isfinite(value)})

    def note(self, message: str) -> None:
        """Keeps nothing, because the library records the terminal."""

    def show(self, page: Path) -> None:
        """Uploads the page, named like its file; it stands beside the metrics."""
        import wandb

        # By its content: the file is written again while the library uploads it.
        self._run.log({page.stem: wandb.Html(page.read_text(), inject=False)})

    def close(self) -> None:
        """Waits until everything is sent, or the time is over."""
        try:
            within(_SLACK + self._patience, self._run.finish)
        finally:
            _let_go()


def _let_go() -> None:
    """Asks the library's own process to end. Otherwise the library would wait for it at exit."""
    import wandb

    with suppress(TimeoutError):  # the service's error was reported before
        within(_SLACK, wandb.teardown)
