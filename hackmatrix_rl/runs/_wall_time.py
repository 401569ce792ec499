"""The wall time of a run by activity, and its share of the devices' peak, over all its starts."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackmatrix_rl.runs._curve import number
from hackmatrix_rl.runs.sinks import duration, read_json_lines

if TYPE_CHECKING:
    from hackmatrix_rl.training import Metrics, Trainer

MFU = "mfu"
"""The metric of a dispatch: the share of the devices' peak that it uses (`Utilization`)."""

PREFIX = "time/"
PARTS: Mapping[str, str] = {
    "compile": "compiling",
    "train": "training",
    "evaluate": "evaluating",
    "save": "saving",
    "lost": "lost to restarts",
    "wait": "waiting for a restart",
    "other": "other",
}
"""The names of the parts of the wall time, and their texts."""


class WallTime:
    """The seconds of each part of a run. A resumed run continues those in `metrics.jsonl`.

    `lost` is the work between the last checkpoint and a kill, which the resumed run repeats. `wait`
    is the time between the last row before a kill and the next start.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._before = dict.fromkeys(PARTS, 0.0)
        self._now = dict.fromkeys(PARTS, 0.0)
        self._at_peak = self._shared = 0.0  # seconds of training at the peak, and those known

    def recall_file(self, metrics: Path, update: int) -> None:
        """Adds the time of earlier starts. Call it before rows are removed from `metrics.jsonl`."""
        waited = time.time() - metrics.stat().st_mtime
        self.recall(read_json_lines(metrics), update, waited=waited)

    def recall(self, rows: Sequence[Mapping[str, Any]], update: int, *, waited: float) -> None:
        """Adds the time of earlier starts.

        Args:
            rows: the rows of `metrics.jsonl`, including those after the checkpoint.
            update: the update of the checkpoint.
            waited: seconds since the last row was written.
        """
        if not rows:
            return
        kept = [row for row in rows if number(row.get("updates")) <= update]
        self._before = of_row(kept[-1] if kept else {})
        self._at_peak, self._shared = _seconds_at_peak(kept)
        self._before["lost"] += sum(of_row(rows[-1]).values()) - sum(self._before.values())
        self._before["wait"] += max(0.0, waited)

    def spend(self, part: str, seconds: float) -> None:
        self._now[part] += max(0.0, seconds)

    def train(self, trainer: "Trainer[Any]", metrics: "Metrics") -> dict[str, float]:
        """Adds a dispatch; returns its share of the devices' peak as a metric, if it is known."""
        self.spend("train", metrics.seconds)
        share = trainer.utilization().share(metrics.dispatched / max(metrics.seconds, 1e-9))
        if share is None:
            return {}
        self._at_peak += share * metrics.seconds
        self._shared += metrics.seconds
        return {MFU: share}

    @contextmanager
    def spending(self, part: str) -> Iterator[None]:
        """Adds the duration of a block to a part."""
        began = self._clock()
        try:
            yield
        finally:
            self.spend(part, self._clock() - began)

    def read(self) -> dict[str, float]:
        """The seconds of each part until now, as metrics."""
        known = sum(self._now.values())
        now = {**self._now, "other": max(0.0, self._clock() - self._began - known)}
        return {f"{PREFIX}{part}": self._before[part] + now[part] for part in PARTS}

    def results(self) -> dict[str, float]:
        """The seconds of each part, and the mean share of the peak if it is known."""
        return {**self.read(), **({MFU: self._at_peak / self._shared} if self._shared else {})}

    def __str__(self) -> str:
        found = self.results()
        return in_words(found, found.get(MFU))


def of_row(row: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of each part in a row of `metrics.jsonl`; 0 for a missing part."""
    found = {part: number(row.get(f"{PREFIX}{part}")) for part in PARTS}
    return {part: seconds if seconds > 0 else 0.0 for part, seconds in found.items()}


def mean_mfu(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """The mean share of the peak over the training of some rows; `None` if it is not known."""
    at_peak, known = _seconds_at_peak(rows)
    return at_peak / known if known else None


def _seconds_at_peak(rows: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Seconds that the training of rows would take at the peak, and seconds that it took."""
    found = [(number(row.get(MFU)), number(row.get("seconds"))) for row in rows]
    known = [(share, seconds) for share, seconds in found if share >= 0 and seconds > 0]
    return sum(share * seconds for share, seconds in known), sum(each[1] for each in known)


def in_words(row: Mapping[str, Any], mfu: float | None = None) -> str:
    """The time in words, largest part first: `1:02:03: 90% training, 6% compiling; MFU 48.0%`.

    Parts below 1% are left out; empty if the row has none.
    """
    parts = of_row(row)
    total = sum(parts.values())
    shown = sorted(parts, key=lambda part: -parts[part])
    shares = [
        f"{parts[part] / total:.0%} {PARTS[part]}"
        for part in shown
        if parts[part] >= total / 100 > 0
    ]
    used = "" if mfu is None else f"; MFU {mfu:.1%}"
    return f"{duration(total)}: {', '.join(shares)}{used}" if shares else ""
