"""The results of several trainings in one program, over the last tenth of the training."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hackmatrix_rl.evaluation import Estimate, mean_over_seeds
from hackmatrix_rl.runs._curve import number
from hackmatrix_rl.runs._record import kind_of, settings_of_members
from hackmatrix_rl.training import LEFT_OUT, MEMBER

LAST_PART = 0.1
"""Fraction of a training so far, at its end, over which metrics are averaged."""


class LastPart:
    """The mean of a metric over the last tenth of a training so far."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def add(self, at: float, value: float) -> None:
        """Adds the value at a number of steps or updates, which must not decrease."""
        self._seen.append((at, value))
        while len(self._seen) > 1 and self._seen[0][0] <= (1 - LAST_PART) * at:
            self._seen.popleft()

    @property
    def mean(self) -> float | None:
        """`None` without a value."""
        values = [value for _, value in self._seen]
        return sum(values) / len(values) if values else None


class MemberMeans:
    """The metrics of each of several trainings, over the last tenth of the training so far."""

    def __init__(self) -> None:
        self._of_members: dict[str, LastPart] = {}  # by name

    def look(self, update: object, numbers: Mapping[str, float | None]) -> None:
        at = number(update)
        for name, value in numbers.items():
            if name.startswith(MEMBER) and math.isfinite(at + number(value)):
                self._of_members.setdefault(name, LastPart()).add(at, number(value))

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Replays the rows that were logged before a resume."""
        for row in rows:
            self.look(row.get("updates"), row)

    @property
    def counters(self) -> dict[str, float]:
        """The means by name: `member/3/return`."""
        means = {name: last.mean for name, last in self._of_members.items()}
        return {name: mean for name, mean in means.items() if mean is not None}


@dataclass(frozen=True)
class Trainings:
    """The trainings of a run, and a metric of each over the last tenth of the training.

    Attributes:
        metric: its name, `RunConfig.best_by`.
        seeds: the seed of each training; empty if the run has none (`hm.SaveRun`).
        settings: the varied settings of each (`--vary`), as text; empty texts without any.
        values: the metric of each; NaN without a number.
        left_out: the numbers of the trainings that were left out as unhealthy.
    """

    metric: str
    seeds: tuple[int, ...]
    settings: tuple[str, ...]
    values: np.ndarray
    left_out: frozenset[int]

    @classmethod
    def from_rows(
        cls, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
    ) -> "Trainings | None":
        """The trainings of a run from its settings and metrics; `None` if there is only one.

        It is also `None` if the trainings copy each other (`--pbt-interval`), because their
        settings then change, and if no metric ranks them.
        """
        settings = settings_of_members(config)
        metric = kind_of(config).best_by
        if len(settings) < 2 or metric is None or config.get("pbt_interval") is not None:
            return None
        values = [last_part(rows, f"{MEMBER}{k}/{metric}") for k in range(len(settings))]
        last = rows[-1] if rows else {}
        first, seeds = config.get("seed"), config.get("seeds", 1)
        return cls(
            metric=metric,
            seeds=tuple(first + k % seeds for k in range(len(settings)) if isinstance(first, int)),
            settings=tuple(settings),
            values=np.array(values),
            left_out=frozenset(k for k in range(len(settings)) if LEFT_OUT.format(k) in last),
        )

    @property
    def groups(self) -> dict[str, list[int]]:
        """The numbers of the trainings of each setting."""
        found: dict[str, list[int]] = {}
        for k, setting in enumerate(self.settings):
            found.setdefault(setting, []).append(k)
        return found

    def healthy(self, members: Sequence[int]) -> list[int]:
        """Those of the trainings `members` that have a number and were not left out."""
        return [k for k in members if k not in self.left_out and not np.isnan(self.values[k])]

    def shown(self, member: int) -> str:
        """The metric of a training, in words."""
        if member in self.left_out:
            return "went wrong"
        return "-" if np.isnan(self.values[member]) else f"{self.values[member]:.2f}"

    def estimate(self, members: Sequence[int]) -> Estimate | None:
        """The mean over the healthy trainings of `members`, with Student's interval."""
        healthy = self.healthy(members)
        return mean_over_seeds(self.values[healthy]) if healthy else None

    def rows(self) -> list[list[str]]:
        """A row for each setting, with the columns `heads`."""
        found = []
        for setting, members in self.groups.items():
            healthy, estimate = self.healthy(members), self.estimate(members)
            count = str(len(members))
            if len(healthy) < len(members):
                count = f"{len(healthy)} of {count}"
            mean = ends = best = "-"
            if estimate is not None:
                mean, ends = f"{estimate.mean:.2f}", ends_of(estimate)
                k = max(healthy, key=lambda k: (self.values[k], -k))
                best = f"{self.values[k]:.2f} (#{k})"
            found.append([setting or "all", count, mean, ends, best])
        return found

    @property
    def heads(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return "setting", "trainings", self.metric, "95% interval", "best"

    @property
    def caption(self) -> str:
        """The caption of a table of `rows`."""
        said = (
            f"Mean {self.metric} in the last tenth of the training, over the seeds of each "
            "setting, with Student's intervals"
        )
        if any(len(self.healthy(members)) < len(members) for members in self.groups.values()):
            said += "; trainings that went wrong do not count"
        if all(len(members) == 1 for members in self.groups.values()):
            said += "; one seed has none" + (": add --seeds 4" if self.seeds else "")
        return f"{said}."


def ends_of(found: Estimate) -> str:
    """The interval of a mean, if it has one: `471.00 to 489.40`."""
    return "-" if np.isnan(found.low) else f"{found.low:.2f} to {found.high:.2f}"


def last_part(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """A metric over the last tenth of the rows; NaN if none has it."""
    found = LastPart()
    for row in rows:
        at, value = number(row.get("updates")), number(row.get(name))
        if not np.isnan(at + value):
            found.add(at, value)
    return np.nan if found.mean is None else found.mean
