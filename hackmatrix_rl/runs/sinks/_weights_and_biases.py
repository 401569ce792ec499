"""Metrics on Weights & Biases."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hackmatrix_rl.runs.checkpoints import Hold
from hackmatrix_rl.runs.sinks._original_names import AXIS, OriginalNames
from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system import wandb_timeouts, within
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import MEMBER

_SLACK = 10.0  # seconds for the library to start, and to end

ARTIFACT = "checkpoint"
"""The type of the artifacts that are checkpoints."""

UPLOAD_SECONDS = 600
"""Timeout for the upload of a checkpoint."""

_LONGEST = 100  # characters of the run's id; the library allows 128 in the full name


def artifact_name(run_id: str) -> str:
    """The name of the artifact with a run's checkpoints."""
    return f"checkpoint-{re.sub('[^A-Za-z0-9_.-]', '_', run_id)[-_LONGEST:]}"


def _own(row: Row, member: int) -> Row:
    """The metrics of one of several trainings in a row, and those that all share."""
    begins = f"{MEMBER}{member}/"
    same = {name: row[name] for name in ("env_steps", "updates", "seconds")}
    return same | {
        name.removeprefix(begins): x for name, x in row.items() if name.startswith(begins)
    }


class WeightsAndBiases(Sink):
    """Logs each row, by environment steps. The constructor imports the library.

    A run with the same id, unique in the project, is resumed. Rows that a resumed run logs again do
    no harm, because the service plots them against environment steps, which may decrease.

    `names` renames the metrics of a row. With `OriginalNames`, rows are plotted against updates as
    the library's steps. Those must increase: the library drops rows that a resumed run logs again.

    With `artifacts`, the run's checkpoints are uploaded as versions of one artifact.

    With a number as `member`, it logs only the metrics of that training of several. The library
    then has several runs in one process, which needs 0.19.10 or newer.

    The library's files are in `folder`; `offline` keeps everything there. `patience` is the timeout
    of the service in seconds, at the start and again at the end.
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
        names: Callable[[Row], Row] = dict,
        artifacts: bool = False,
        member: int | None = None,
        patience: float = 30.0,
    ) -> None:
        import wandb  # takes seconds to import, and few runs use it

        self._patience = patience
        self._names = names
        self._member = member
        self._artifact = artifact_name(run_id) if artifacts else None
        timeouts = wandb_timeouts(wandb.Settings, seconds=patience)
        extra: dict[str, Any] = {} if member is None else {"reinit": "create_new"}
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
                    **extra,
                ),
            )
        except (wandb.Error, TimeoutError) as error:
            _let_go()
            said = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(
                f"--tracker wandb: {said}. Log in with `wandb login`, or use --wandb-mode offline."
            ) from error
        # The library's steps must increase, but a resumed run goes back to its checkpoint.
        self._by_update = isinstance(names, OriginalNames)
        axis = AXIS if self._by_update else "env_steps"
        self._run.define_metric(axis)
        self._run.define_metric("*", step_metric=axis)

    def write(self, row: Row) -> None:
        """Logs the finite numbers."""
        row = row if self._member is None else _own(row, self._member)
        named = self._names(row)
        step = int(named[AXIS]) if self._by_update else None
        self._run.log({name: x for name, x in named.items() if math.isfinite(x)}, step=step)

    def show(self, page: Path) -> None:
        """Uploads the page, named like its file; Weights & Biases shows it with the metrics."""
        import wandb

        # Its content, because the file may be rewritten while the library uploads it.
        self._show(page.stem, wandb.Html(page.read_text(), inject=False))

    def keep(self, checkpoint: Path) -> None:
        """Uploads a checkpoint and waits for the upload; offline, it is stored for later.

        Its run does not delete it meanwhile. One that is deleted before is reported as failed.
        """
        import wandb

        if self._artifact is None:
            return
        with Hold(checkpoint):
            about = {"update": int(checkpoint.name)}
            artifact = wandb.Artifact(self._artifact, type=ARTIFACT, metadata=about)
            artifact.add_dir(str(checkpoint))
            logged = self._run.log_artifact(artifact, aliases=[f"update-{checkpoint.name}"])
            if not self._run.offline:
                logged.wait(timeout=UPLOAD_SECONDS)

    def film(self, draw: Callable[[], Path]) -> None:
        """Uploads a GIF, named like its file."""
        import wandb

        file = draw()
        self._show(file.name, wandb.Video(str(file), format="gif"))

    def _show(self, name: str, shown: Any) -> None:
        # If updates are the library's steps, a page is not a step: it joins the previous row.
        extra = {"commit": False} if self._by_update else {}
        self._run.log({name: shown}, **extra)

    def table(self, name: str, rows: Sequence[Mapping[str, str | float]]) -> None:
        """Logs a table of numbers and texts by column; all rows have the same columns."""
        import wandb

        data: list[list[Any]] = [[row[column] for column in rows[0]] for row in rows]
        table = wandb.Table(columns=[*rows[0]], data=data)
        within(_SLACK + self._patience, partial(self._run.log, {name: table}))

    def close(self) -> None:
        """Waits until everything is sent, at most `patience`."""
        try:
            within(_SLACK + self._patience, self._run.finish)
        finally:
            if self._member is None:  # the sink of the run, which is closed after its members
                _let_go()


def _let_go() -> None:
    """Ends the library's service process, for which the library would otherwise wait at exit."""
    import wandb

    with suppress(TimeoutError):  # an error of the service was reported before
        within(_SLACK, wandb.teardown)
