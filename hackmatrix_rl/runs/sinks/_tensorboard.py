"""Metrics as TensorBoard events."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hackmatrix_rl.runs.sinks._sink import Row, Sink
from hackmatrix_rl.system import require


def require_tensorboard() -> None:
    """Raises a ConfigError unless the package for events is installed."""
    require("tensorboardX", extra="tensorboard", caller="--tracker tensorboard")


class TensorBoard(Sink):
    """Writes each row as scalars, renamed by `names`, by environment steps into an event file.

    Each start of a run writes a separate file. The file marks its first step, and TensorBoard hides
    events of older files from that step on.

    Raises:
        ConfigError: the package for events is missing.
    """

    def __init__(
        self,
        folder: Path,
        *,
        names: Callable[[Row], Row] = dict,
        now: Callable[[], float] = time.time,
    ) -> None:
        require_tensorboard()
        # Imported late, because the package belongs to an extra.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._events: Any = event_pb2
        self._summaries: Any = summary_pb2
        self._names = names
        self._now = now
        self._started = False
        folder.mkdir(parents=True, exist_ok=True)
        # The process id makes two starts within a second write two files.
        self._writer: Any = EventsWriter(str(folder / "events"), f".{os.getpid()}")

    def write(self, row: Row) -> None:
        """Writes the finite numbers and flushes."""
        step = int(row["env_steps"])
        if not self._started:
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(step, session_log=start)
            self._started = True
        values = [
            self._summaries.Summary.Value(tag=name, simple_value=value)
            for name, value in self._names(row).items()
            if math.isfinite(value)
        ]
        self._write(step, summary=self._summaries.Summary(value=values))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _write(self, step: int, **what: Any) -> None:
        self._writer.write_event(self._events.Event(wall_time=self._now(), step=step, **what))
