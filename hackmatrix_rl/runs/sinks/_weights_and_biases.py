"""Metrics on Weights & Biases."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system import wandb_timeouts, within

_SLACK = 10.0  # seconds for the library to start, and to end


class WeightsAndBiases(Sink):
    """Logs each row, by environment steps. The constructor imports the library.

    A run with the same id, unique in the project, continues. Rows that a resumed run logs again do
    no harm: the service draws them over environment steps, which may go back.

    The library's files lie in `folder`; `offline` keeps everything there. `patience` is in seconds:
    to wait for the service at the start, and again at the end.

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
        group: str | None = None,
        tags: Sequence[str] = (),
        notes: str | None = None,
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
                    group=group,
                    tags=list(tags),
                    notes=notes,
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

    def show(self, page: Path) -> None:
        """Uploads the page, named like its file; it stands beside the metrics."""
        import wandb

        # By its content: the file is written again while the library uploads it.
        self._run.log({page.stem: wandb.Html(page.read_text(), inject=False)})

    def film(self, file: Path) -> None:
        """Uploads a moving picture, named like its file."""
        import wandb

        self._run.log({file.name: wandb.Video(str(file), format="gif")})

    def table(self, name: str, rows: Sequence[Mapping[str, str | float]]) -> None:
        """Logs a table of numbers and texts by column; all rows have the same columns.

        Raises:
            TimeoutError: the library waits for the service. Old versions (0.18) ask it something
                first, even offline, for as long as it does not answer.
        """
        import wandb

        data: list[list[Any]] = [[row[column] for column in rows[0]] for row in rows]
        table = wandb.Table(columns=[*rows[0]], data=data)
        within(_SLACK + self._patience, partial(self._run.log, {name: table}))

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
