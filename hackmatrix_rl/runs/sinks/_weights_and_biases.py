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

_SLACK = 10.0  # seconds for the library itself to start, and to end


class WeightsAndBiases(Sink):
    """Logs each row, by environment steps. The library is imported only when this is made.

    A run of the same id is continued. Rows that a resumed run logs again do no harm: the
    service draws them over environment steps, which may go back.

    Args:
        project: the project there.
        run_id: id of the run there; differs from all others in the project.
        name: of the run, for people.
        folder: where the library keeps its own files.
        config: settings to store with the run.
        mode: `online`, or `offline` to keep everything in the folder.
        patience: seconds to wait for the service at the start, and again at the end.

    Raises:
        ConfigError: if the service refuses (no login, no network).
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
        import wandb  # seconds to import, and rarely asked for

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
        # Steps of its own may only grow, and a resumed run goes back to its checkpoint.
        self._run.define_metric("env_steps")
        self._run.define_metric("*", step_metric="env_steps")

    def write(self, row: Row) -> None:
        """Logs the numbers that are known."""
        self._run.log({name: value for name, value in row.items() if math.isfinite(value)})

    def note(self, message: str) -> None:
        """Keeps nothing: the library records the terminal itself."""

    def close(self) -> None:
        """Waits until everything is sent, or the patience is at its end."""
        try:
            within(_SLACK + self._patience, self._run.finish)
        finally:
            _let_go()


def _let_go() -> None:
    """Ends the library's own process, or leaves it alone: the library would wait for it at exit.

    Once it was asked to end, nothing waits for it any more.
    """
    import wandb

    with suppress(TimeoutError):  # what there was to say of the service has been said
        within(_SLACK, wandb.teardown)
