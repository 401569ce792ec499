"""Signs of a training that goes wrong, and the reaction to each.

| sign | reaction |
|---|---|
| a gradient that is not finite | its step is skipped and counted; a warning |
| nothing finite in an update | a warning; a stop after N in a row |
| entropy below the floor for ten updates | a warning |
| an update that moves the policy beyond the alarm | a warning; a stop on request |
| spawns that found no room | a warning that names the flags to raise |
| siphons, programs or owners of UNDO far below what they were | a warning, once a run |
| very many UNDOs a game, or games as long as they may be with some | a warning, once a run |

A stop keeps the last good checkpoint and saves nothing more.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hackmatrix_rl.config import RunConfig
from hackmatrix_rl.runs._habits import Habits
from hackmatrix_rl.training import Metrics

ENTROPY_PATIENCE = 10
"""Updates in a row below the floor before a warning: a single one may be chance."""


@dataclass(frozen=True)
class Finding:
    """A message about a sign.

    Attributes:
        kind: `nonfinite`, `entropy`, `kl`, `dropped`, a habit (`HABITS`) or `undo`.
        message: one line with the sign and what may help.
        stop: whether training must end here, without another checkpoint.
    """

    kind: str
    message: str
    stop: bool = False


class Health:
    """Checks the metrics of each dispatch, without clock, file or device.

    A warning comes at its 1st, 2nd, 4th, 8th ... occurrence: it is visible and does not flood
    the log. A dispatch counts as its number of updates.

    Args:
        stop_after_nonfinite: training stops after this many updates in a row without anything
            finite; `None`: never.
        entropy_floor: entropy in nats; `None`: no floor.
        kl_alarm: KL of an update in nats; `None`: no alarm.
        stop_after_kl: training stops after this many updates in a row beyond the alarm; `None`:
            never.
        max_steps: the limit of an episode's length; `None` without one.
    """

    def __init__(
        self,
        *,
        stop_after_nonfinite: int | None = 20,
        entropy_floor: float | None = 0.02,
        kl_alarm: float | None = 0.2,
        stop_after_kl: int | None = None,
        max_steps: int | None = None,
    ) -> None:
        self._stop_after_nonfinite = stop_after_nonfinite
        self._entropy_floor = entropy_floor
        self._kl_alarm = kl_alarm
        self._stop_after_kl = stop_after_kl
        self._seen: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._updates: int | None = None
        self._habits = Habits(max_steps)

    @classmethod
    def of(cls, config: RunConfig) -> "Health":
        """The checks with the limits of a config."""
        return cls(**config.health())

    @property
    def sound(self) -> bool:
        """Whether the newest dispatch was finite. Only then its state is a good checkpoint."""
        return not self._in_a_row["nonfinite"]

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Takes in the rows that the run logged before it was resumed, as `Habits.recall` does."""
        self._habits.recall(rows)

    def look(self, metrics: Metrics) -> Sequence[Finding]:
        """The findings of a dispatch, usually none."""
        # At the first call the number of updates is unknown: the run may be a resumed one.
        updates = 1 if self._updates is None else max(1, metrics.updates - self._updates)
        self._updates = metrics.updates
        found = [
            self._nonfinite(metrics, updates),
            self._entropy(metrics, updates),
            self._kl(metrics, updates),
            self._dropped(metrics),
            *(
                Finding(kind, f"Warning: update {metrics.updates:,}: {message}")
                for kind, message in self._habits.look(metrics)
            ),
        ]
        return [finding for finding in found if finding is not None]

    def _nonfinite(self, metrics: Metrics, updates: int) -> Finding | None:
        learning = metrics.learning
        odd = [
            name
            for name, value in {**metrics.episode, **metrics.reward, **learning}.items()
            if not math.isfinite(value)
        ]
        skipped, taken = int(learning.get("skipped", 0)), int(learning.get("gradient_steps", 0))
        lost = bool(odd) or (skipped > 0 and taken == 0)
        row = self._count("nonfinite", lost, updates)
        if not odd and not skipped:
            return None
        what = f"{skipped} of {skipped + taken} gradient steps skipped: not finite"
        if odd:
            what = f"{', '.join(odd[:3])} not finite" + (f"; {what}" if skipped else "")
        where = f"update {metrics.updates:,}"
        limit = self._stop_after_nonfinite
        if limit is not None and row >= limit:
            return Finding(
                "nonfinite",
                f"{where}: {what}, for {row} updates in a row. Stopping; the last good "
                "checkpoint is kept. Try --debug nans, a lower --learning-rate, --precision f32.",
                stop=True,
            )
        return self._warning("nonfinite", f"{where}: {what}. --debug nans shows where.")

    def _entropy(self, metrics: Metrics, updates: int) -> Finding | None:
        entropy, floor = metrics.learning.get("entropy"), self._entropy_floor
        # Without a step there is no entropy.
        if floor is None or entropy is None or not metrics.learning.get("gradient_steps", 1):
            return None
        if self._count("entropy", entropy < floor, updates) < ENTROPY_PATIENCE:
            return None
        return self._warning(
            "entropy",
            f"update {metrics.updates:,}: entropy {entropy:.2g} nats, below {floor:g} "
            "(--entropy-floor): the policy hardly explores. Try a higher --ent-coef.",
        )

    def _kl(self, metrics: Metrics, updates: int) -> Finding | None:
        moved, alarm = metrics.learning.get("approx_kl"), self._kl_alarm
        if alarm is None or moved is None:
            return None
        row = self._count("kl", moved > alarm, updates)
        if not row:
            return None
        what = f"update {metrics.updates:,}: the policy moved by {moved:.2g}, beyond {alarm:g}"
        if self._stop_after_kl is not None and row >= self._stop_after_kl:
            return Finding(
                "kl",
                f"{what}, for {row} updates in a row. Stopping; the last good checkpoint is "
                "kept. Try --target-kl, or a lower --learning-rate.",
                stop=True,
            )
        return self._warning(
            "kl", f"{what} (--kl-alarm). Try --target-kl, or a lower --learning-rate."
        )

    def _dropped(self, metrics: Metrics) -> Finding | None:
        dropped = metrics.episode.get("dropped", 0.0)
        if not dropped > 0:
            return None
        return self._warning(
            "dropped",
            f"update {metrics.updates:,}: {dropped:.2g} spawns a game found no room and were "
            "dropped. Raise --max-enemies and --max-transmissions.",
        )

    def _count(self, kind: str, happened: bool, updates: int) -> int:
        """Number of updates in a row with this sign."""
        self._in_a_row[kind] = self._in_a_row[kind] + updates if happened else 0
        return self._in_a_row[kind]

    def _warning(self, kind: str, message: str) -> Finding | None:
        self._seen[kind] += 1
        times = self._seen[kind]
        if times & (times - 1):  # not a power of two
            return None
        again = f" (seen {times} times)" if times > 1 else ""
        return Finding(kind, f"Warning: {message}{again}")
