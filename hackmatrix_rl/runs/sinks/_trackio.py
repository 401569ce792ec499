"""Metrics in trackio's local database."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system import require
from hackmatrix_rl.system.errors import ConfigError


def require_trackio(project: str) -> None:
    """Raises a ConfigError unless trackio is installed and can have this project."""
    trackio = require("trackio", extra="trackio", caller="--tracker trackio")
    try:
        trackio.SQLiteStorage.validate_project_name(project)
    except ValueError as error:
        raise ConfigError(f"--wandb-project: {error}") from error


class Trackio(Sink):
    """Logs each row, by environment steps, into trackio's database on this machine.

    A run with the same id in the project is resumed (`resumed`). Rows that it logs again have the
    steps and values of the first ones. `names` renames the metrics of a row. Nothing is sent.

    Raises:
        ConfigError: the package is missing, or cannot have this project.
    """

    def __init__(
        self,
        *,
        project: str,
        run_id: str,
        config: Mapping[str, Any],
        group: str | None = None,
        names: Callable[[Row], Row] = dict,
    ) -> None:
        require_trackio(project)
        # The library looks for it in `sys.modules` when it logs, and fails on one half imported.
        import matplotlib.figure  # noqa: F401
        import trackio  # imported late, because the package belongs to an extra

        class LocalRun(trackio.Run):  # type: ignore[misc]  # an extra, so its types are not known
            def _get_username(self) -> None:
                """Leaves out the user's name, for which the library asks Hugging Face."""

        self._names = names
        self._step: int | None = None  # after the last one, until a row is written
        self._media: dict[str, Any] = {}
        self.resumed = (
            trackio.SQLiteStorage.get_max_step_for_run(project, run_id, run_id=run_id) is not None
        )
        # `trackio.init` would read variables that name a server, and log the hardware as well.
        self._run: Any = LocalRun(
            url=None,
            client=None,
            project=project,
            name=run_id,
            run_id=run_id,
            group=group,
            config=dict(config),
        )

    def write(self, row: Row) -> None:
        """Logs the finite numbers, with the game of an evaluation in this row."""
        self._step = int(row["env_steps"])
        self._log({name: x for name, x in self._names(row).items() if math.isfinite(x)})

    def film(self, draw: Callable[[], Path]) -> None:
        """Takes a GIF into the next row, named like its file."""
        import trackio

        film = draw()
        self._media[film.name] = trackio.Video(str(film))

    def table(self, name: str, rows: Sequence[Mapping[str, str | float]]) -> None:
        """Takes a table of numbers and texts by column."""
        import trackio

        self._media[name] = trackio.Table(data=[dict(row) for row in rows])

    def close(self) -> None:
        """Waits until everything is on disk."""
        if self._media:
            self._log({})
        with redirect_stdout(io.StringIO()):  # the library says there that it uploads
            self._run.finish()

    def _log(self, numbers: Mapping[str, float]) -> None:
        media, self._media = self._media, {}
        self._run.log({**numbers, **media}, step=self._step)
